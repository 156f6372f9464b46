"""Reports for people: tables, plots, and pages of images and questions."""

from ivqa.report.belief_plots import read_curves
from ivqa.report.belief_words import (
    BeliefPageModel,
    headline,
    mostly_illegal,
    print_summary,
    summary,
)
from ivqa.report.contact_sheet import (
    QuestionPages,
    write_contact_sheet,
    write_contact_sheet_png,
)
from ivqa.report.model_names import title_in, title_of
from ivqa.report.pages.annotation_page import ToAnnotate, write_annotation_page
from ivqa.report.pages.belief_page import MOST_MODELS, beliefs_to_explain, write_belief_page
from ivqa.report.pages.consistency_page import (
    consistency_rows,
    consistency_sentences,
    write_consistency_page,
)
from ivqa.report.pages.noise_page import NoisePageModel, write_noise_page
from ivqa.report.plots import write_noise_curve
from ivqa.report.tables import (
    markdown_table,
    noise_rows,
    print_metrics,
    print_noise_curve,
    print_table,
)

__all__ = [
    "MOST_MODELS",
    "BeliefPageModel",
    "NoisePageModel",
    "QuestionPages",
    "ToAnnotate",
    "beliefs_to_explain",
    "consistency_rows",
    "consistency_sentences",
    "headline",
    "markdown_table",
    "mostly_illegal",
    "noise_rows",
    "print_metrics",
    "print_noise_curve",
    "print_summary",
    "print_table",
    "read_curves",
    "summary",
    "title_in",
    "title_of",
    "write_annotation_page",
    "write_belief_page",
    "write_consistency_page",
    "write_contact_sheet",
    "write_contact_sheet_png",
    "write_noise_curve",
    "write_noise_page",
]
