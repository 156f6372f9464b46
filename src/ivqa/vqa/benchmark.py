"""Earlier scripts import from here; the code is in `ivqa.vqa.scores`."""

from ivqa.vqa.scores import score_answers, score_choices

__all__ = ["score_answers", "score_choices"]
