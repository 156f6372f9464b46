"""What people look at: tables, and pages of pictures and questions."""

from ivqa.report.contact_sheet import (
    ContactSheetItem,
    GeneratedQuestion,
    write_contact_sheet,
    write_contact_sheet_png,
)
from ivqa.report.tables import markdown_table, print_metrics, print_table

__all__ = [
    "ContactSheetItem",
    "GeneratedQuestion",
    "markdown_table",
    "print_metrics",
    "print_table",
    "write_contact_sheet",
    "write_contact_sheet_png",
]
