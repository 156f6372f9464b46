"""Rewards of sampled questions. The policy is trained on their product [iVQA 5].

A reward is a callable from `Candidates` to (N,) values in [0, 1], configured in conf/reward.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from ivqa.diagnosis.candidates import Candidates
from ivqa.diagnosis.search.proxy import content_words
from ivqa.generators import most_probable
from ivqa.ranges import NonNegative, Share
from ivqa.scenes import parse


class Reward(Protocol):
    """A function that rewards sampled questions."""

    def __call__(self, candidates: Candidates) -> Tensor:
        """Computes the reward of each question.

        Args:
            candidates: N sampled questions.

        Returns:
            (N,) float32 in [0, 1].
        """


@dataclass(frozen=True)
class GoalReward:
    """r_g = phi(a | I, q): the probability that the VQA model gives the pair's answer."""

    version: ClassVar[int] = 1

    def __call__(self, candidates: Candidates) -> Tensor:
        """Returns phi of each question, (N,)."""
        return candidates.phi


@dataclass(frozen=True)
class LegalityReward:
    """r_v = 1 where p(legal | q) of the legality model is above a threshold, else 0.

    Args:
        threshold: The threshold in [0, 1]. None takes the legality model's own limit, which is
            calibrated on held-out questions.
    """

    version: ClassVar[int] = 1

    threshold: Share | None = None

    def __call__(self, candidates: Candidates) -> Tensor:
        """Returns 1 or 0 for each question, (N,); raises UserError without a legality model."""
        scores = candidates.legality
        assert candidates.legality_model is not None  # `legality` has raised otherwise
        limit = candidates.legality_model.limit if self.threshold is None else self.threshold
        return (scores > limit).float()


@dataclass(frozen=True)
class DiversityReward:
    """r_d = 1 for the most probable of a pair's identical questions, 0 for its copies.

    Of equally probable copies the first wins; with the paper's strict inequality none would.
    """

    version: ClassVar[int] = 1

    def __call__(self, candidates: Candidates) -> Tensor:
        """Returns 1 for the winner of each group of identical questions, (N,), 0 for others."""
        likelihood = candidates.questions.log_likelihood.cpu()
        wins = torch.zeros(len(likelihood))
        wins[most_probable(likelihood, candidates.group)] = 1
        return wins


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

    It is the program of the question where the grammar of the scenes parses it, else its content
    words, sorted.

    Example:
        >>> meaning("Is there a tiny dog?") == meaning("is there a small dog in the picture?")
        True
        >>> meaning("Is there a bus near the river?")
        ('bus', 'near', 'river')
    """
    program = parse(question)
    return tuple(sorted(content_words(question))) if program is None else program
