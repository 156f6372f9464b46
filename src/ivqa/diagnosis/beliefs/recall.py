"""How much of a belief set a search finds: exactly, and estimated from the samples alone.

Exactly: where all questions of a language can be listed, they are all put to the VQA model, and
the search is compared with what the model answers. Estimated: from the questions that were sampled
once or twice (Good 1953; Chao 1984).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.vqa import Answerer

_QUESTIONS_PER_PASS = 1024


@runtime_checkable
class Enumerable(Protocol):
    """An oracle that can list the simple questions of its language, such as that of the scenes."""

    def simple_questions(self) -> Mapping[Hashable, str]:
        """Returns one question for each fact (`Oracle.fact`)."""


@dataclass(frozen=True)
class ListedBeliefs:
    """The facts that a VQA model believes, among all that an oracle can list.

    Args:
        questions: One question for each fact, from `Enumerable.simple_questions`.
    """

    questions: Mapping[Hashable, str]

    def of(
        self, answerer: Answerer, images: ImageBatch, pairs: Sequence[tuple[int, str]]
    ) -> list[set[Hashable]]:
        """Asks the model all questions about the image of each of P (image, answer) pairs.

        Returns:
            For each pair, the facts whose question the model answers with the pair's answer.
        """
        facts, texts = list(self.questions), list(self.questions.values())
        given: dict[int, list[str]] = {}
        for row, (image, _) in enumerate(pairs):
            if image not in given:
                given[image] = self._answers(answerer, images, row, texts)
        return [
            {fact for fact, own in zip(facts, given[image], strict=True) if own == answer}
            for image, answer in pairs
        ]

    @staticmethod
    def _answers(
        answerer: Answerer, images: ImageBatch, row: int, texts: Sequence[str]
    ) -> list[str]:
        answers: list[str] = []
        for start in range(0, len(texts), _QUESTIONS_PER_PASS):
            some = list(texts[start : start + _QUESTIONS_PER_PASS])
            same = torch.full((len(some),), row, device=images.index.device)
            answers += answerer.answer(images.select(same), some)
        return answers


def listed_beliefs(oracle: object | None) -> ListedBeliefs:
    """Lists the simple questions of an oracle.

    Raises:
        UserError: The oracle cannot list them.
    """
    if not isinstance(oracle, Enumerable):
        raise UserError(
            "recall=true needs data whose questions can all be listed, such as data=scenes; set "
            "recall=false"
        )
    return ListedBeliefs(oracle.simple_questions())


def estimated_total(counts: NDArray[np.int64]) -> float:
    """Estimates how many distinct things can be found.

    `counts` (S,) >= 1 says how often each of S things was found.

    The bias-corrected estimator of Chao (1984), S + f1 (f1 - 1) / (2 (f2 + 1)), a lower bound in
    expectation; f1 and f2 are the numbers of things that were found once and twice.

    Example:
        >>> estimated_total(np.array([1, 1, 1, 2, 5]))
        6.5
    """
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return len(counts) + once * (once - 1) / (2 * (twice + 1))


def found_once(counts: NDArray[np.int64]) -> int:
    """Counts the things that were found once, f1.

    Their share of all finds estimates the probability that the next find is new (Good 1953).
    """
    return int((counts == 1).sum())
