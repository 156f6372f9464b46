"""Earlier scripts import from here; the code is in `ivqa.vqa.served.answer_estimates`."""

from ivqa.vqa.served.answer_estimates import Scoring

__all__ = ["Scoring"]
