"""Reports for people: tables, plots, and pages of images and questions."""

from ivqa.report.contact_sheet import QuestionPages

__all__ = ["QuestionPages"]
