"""The interface of every VQA system: images and questions as strings in, answers out."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary


class Answerer(Protocol):
    """A VQA system phi(a | I, q).

    Attributes:
        answers: The closed set A; None for a model that writes its answers.
    """

    answers: AnswerVocabulary | None

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        """Computes log phi(a | I, q).

        Args:
            images: Images of B questions.
            questions: B questions.
            answers: The answers to score; None for all of A.

        Returns:
            Scores, (B, |A|) or (B, len(answers)), float32.
        """

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        """Returns argmax_a phi(a | I, q) for each of B images and questions."""


@runtime_checkable
class ReadsWords(Protocol):
    """A VQA system that reads the words of questions by its vocabulary, and needs no texts."""

    question_vocabulary: Vocabulary

    def log_scores(
        self, images: ImageBatch, questions: Sequence[str], answers: list[str] | None = None
    ) -> Tensor:
        """Computes log phi(a | I, q) of questions, which may be `DecodedTexts`; see `Answerer`."""


@runtime_checkable
class Attends(Protocol):
    """A VQA system that weights the places of an image, and can say how."""

    def attention(self, images: ImageBatch, questions: list[str]) -> Tensor | None:
        """Computes where the system looks for the answers to B questions.

        Returns:
            Weights (B, L), float32 in [0, 1], of the L positions of a grid over the whole image,
            row by row; they sum to 1, and several maps are averaged. None for a system whose
            network has no attention.
        """


@runtime_checkable
class Metered(Protocol):
    """A VQA system that counts what it has asked and paid for, such as a served model."""

    def usage(self) -> dict[str, float]:
        """Returns the counts of this process by name, such as served/requests."""
