"""What every VQA system offers, whatever is inside it: strings in, answers out."""

from typing import Protocol

from torch import Tensor

from ivqa.data.batch import ImageBatch
from ivqa.text.answers import AnswerVocabulary


class Answerer(Protocol):
    """A VQA system phi(a | I, q)."""

    answers: AnswerVocabulary | None
    """The closed set A; None for a model that answers in its own words."""

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        """Scores log phi(a | I, q), (B, |A|) float32, of all answers or of the given ones."""

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        """The answer argmax_a phi(a | I, q) to each of B questions."""
