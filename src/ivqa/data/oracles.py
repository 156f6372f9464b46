"""The interface of oracles, which judge questions about the images of a split exactly."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Judgement:
    """The judgement of an oracle about a question on an image.

    Args:
        understood: Whether the oracle knows the meaning of the question.
        premise: Whether everything exists that the question presupposes; None where the question
            is not understood.
        answer: One right answer; None for a false premise.
        acceptable: All right answers and their synonyms.
    """

    understood: bool
    premise: bool | None = None
    answer: str | None = None
    acceptable: frozenset[str] = frozenset()


NOT_UNDERSTOOD = Judgement(False)
FALSE_PREMISE = Judgement(True, False)


class Oracle(Protocol):
    """Judges questions about images; a `VQADataset` may have one for a split."""

    def judge(self, image_id: int, question: str) -> Judgement:
        """Judges a question, any text, about an image.

        Raises:
            KeyError: The oracle does not know the image.
        """

    def judge_many(self, image_ids: Iterable[int], questions: Iterable[str]) -> list[Judgement]:
        """Judges N questions, each about its own image, as `judge` does."""
        pairs = zip(image_ids, questions, strict=True)
        return [self.judge(image_id, question) for image_id, question in pairs]

    def fact(self, question: str) -> Hashable | None:
        """The visual fact that a question states: equal for questions of equal meaning.

        None where the question is not understood.
        """
