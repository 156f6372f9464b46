"""The reward for new meanings: questions that ask the same in other words share it."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ivqa.diagnosis.candidates import Candidates
from ivqa.diagnosis.search.proxy import content_words
from ivqa.ranges import NonNegative
from ivqa.scenes import parse


@dataclass(frozen=True)
class MeaningReward:
    """r_m = 1 / k ** power, for k beliefs of the pair with the question's meaning.

    The k beliefs are distinct wordings that the VQA model answers with the pair's answer. A
    question that is no belief takes the k of its meaning too, at least 1. With power 1 and the
    diversity reward, the beliefs of one meaning earn as much together as one alone, so the policy
    gains by new meanings only. With power 0 all wordings earn the same.

    Args:
        power: How strongly the wordings of one meaning share their reward.
    """

    version: ClassVar[int] = 1

    power: NonNegative = 1.0

    def __call__(self, candidates: Candidates) -> Tensor:
        """Returns the share of each question, (N,) in (0, 1]."""
        codes: dict[tuple[int, Hashable], int] = {}
        texts, pairs = candidates.questions.text, candidates.pairs
        code = [
            codes.setdefault((pairs[row], meaning(texts[row])), len(codes))
            for row in candidates.first.tolist()  # distinct questions of a pair, (U,)
        ]
        group = torch.tensor(code, dtype=torch.int64)
        believed = candidates.believed[candidates.first].float()
        wordings = torch.zeros(len(codes)).scatter_add_(0, group, believed).clamp_min(1)
        return wordings[group[candidates.group]] ** -self.power


def meaning(question: str) -> Hashable:
    """What questions that ask the same in other words have in common.

    Args:
        question: Any text.

    Returns:
        The program of the question where the grammar of the scenes parses it, else its content
        words, sorted.

    Example:
        >>> meaning("Is there a tiny dog?") == meaning("is there a small dog in the picture?")
        True
        >>> meaning("Is there a bus near the river?")
        ('bus', 'near', 'river')
    """
    program = parse(question)
    return tuple(sorted(content_words(question))) if program is None else program
