"""Rewards of a sampled question; the policy learns from their product [iVQA 5].

A reward is a callable from `Candidates` to (N,) values in [0, 1], configured in conf/reward.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ivqa.diagnosis.candidates import Candidates
from ivqa.ranges import Share


class Reward(Protocol):
    """What a sampled question earns."""

    def __call__(self, candidates: Candidates) -> Tensor:
        """(N,) float32 in [0, 1]."""


@dataclass(frozen=True)
class GoalReward:
    """r_g = phi(a | I, q): the probability that the VQA model gives the pair's answer."""

    def __call__(self, candidates: Candidates) -> Tensor:
        """Phi of the pair's answer."""
        return candidates.phi


@dataclass(frozen=True)
class LegalityReward:
    """r_v = 1 where the language model's p(legal) > threshold, else 0.

    threshold: None takes the legality model's own, calibrated on held-out questions.
    """

    threshold: Share | None = None

    def __call__(self, candidates: Candidates) -> Tensor:
        """1 for legal questions, 0 for others."""
        assert candidates.judge is not None or self.threshold is not None
        limit = candidates.judge.limit if self.threshold is None else self.threshold  # type: ignore[union-attr]
        return (candidates.legality > limit).float()


@dataclass(frozen=True)
class DiversityReward:
    """r_d = 1 for the most probable of identical questions of a pair, 0 for its copies.

    The winner takes all; of exactly equal ones the first, where the paper's strict inequality
    would leave none.
    """

    def __call__(self, candidates: Candidates) -> Tensor:
        """1 for winners, 0 for copies."""
        likelihood = candidates.questions.log_likelihood.cpu()
        order = likelihood.argsort(descending=True, stable=True)
        order = order[candidates.group[order].argsort(stable=True)]
        group = candidates.group[order]
        wins = torch.ones(len(order))
        wins[1:] = (group[1:] != group[:-1]).float()
        return torch.empty_like(wins).scatter_(0, order, wins)
