"""Rewards of sampled questions. The policy is trained on their product [iVQA 5].

A reward is a callable from `Candidates` to (N,) values in [0, 1], configured in conf/reward.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from ivqa.diagnosis.candidates import Candidates
from ivqa.ranges import Share


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
        # Two stable sorts: by group, and within a group by falling likelihood.
        order = likelihood.argsort(descending=True, stable=True)
        order = order[candidates.group[order].argsort(stable=True)]
        group = candidates.group[order]
        wins = torch.ones(len(order))
        wins[1:] = (group[1:] != group[:-1]).float()
        return torch.empty_like(wins).scatter_(0, order, wins)
