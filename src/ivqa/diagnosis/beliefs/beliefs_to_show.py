"""How much the confidence of a model is worth, and the beliefs whose reasons are shown."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from ivqa.diagnosis.beliefs.beliefs import WRONG, Belief, resampled_shares
from ivqa.diagnosis.policy.rewards import meaning
from ivqa.metrics.bootstrap import cluster_sums, interval
from ivqa.scenes import Oracle


@dataclass(frozen=True)
class Band:
    """The typed beliefs whose confidence phi lies in [low, high).

    Attributes:
        high: The upper edge; that of the last band belongs to it.
        typed: Number of beliefs with a type.
        confidence: Their mean phi.
        correct: Share of them that are correct, weighted.
        interval: The 95 percent interval of the share; the bootstrap draws images.
    """

    low: float
    high: float
    typed: int
    confidence: float
    correct: float
    interval: tuple[float, float]


def across_confidence(
    beliefs: Sequence[Belief], edges: Sequence[float], weights: ArrayLike | None = None
) -> list[Band]:
    """How often beliefs of each confidence are correct: the calibration of a model.

    Args:
        beliefs: N beliefs; those without a type are left out.
        edges: Rising edges of the bands of phi.
        weights: Weight of each belief (N,), > 0, see `shares_of_types`; None: all are equal.

    Returns:
        The bands that have typed beliefs, by rising confidence.
    """
    given = np.ones(len(beliefs)) if weights is None else np.asarray(weights, np.float64)
    bands = []
    for low, high in pairwise(edges):
        own = [
            (belief, weight)
            for belief, weight in zip(beliefs, given, strict=True)
            if belief.type and (low <= belief.phi < high or belief.phi == high == edges[-1])
        ]
        if not own:
            continue
        weighted = np.array([weight * np.eye(2)[int(one.type in WRONG)] for one, weight in own])
        # Right and wrong beliefs of each image, (images, 2).
        counts = cluster_sums(weighted, [one.image_id for one, _ in own])
        correct = counts.sum(axis=0)[0] / counts.sum()
        ends = interval(resampled_shares(counts)[:, 0])
        mean = np.average([one.phi for one, _ in own], weights=[weight for _, weight in own])
        band = Band(
            low, high, len(own), float(mean), float(correct), (float(ends[0]), float(ends[1]))
        )
        bands.append(band)
    return bands


def meaning_of(oracle: Oracle | None) -> Callable[[str], Hashable]:
    """How the meaning of a question is found: paraphrases have the same.

    Returns:
        A function that returns the fact that the oracle reads in a question; where it reads none,
        or without an oracle, the program or the content words (`meaning`).
    """

    def of(question: str) -> Hashable:
        fact = None if oracle is None else oracle.fact(question)
        return meaning(question) if fact is None else fact

    return of


def first_meanings(
    beliefs: Iterable[Belief], means: Callable[[str], Hashable], number: int
) -> list[Belief]:
    """Chooses the most confident belief of each of the first meanings of every pair.

    Args:
        means: The meaning of a question, see `meaning_of`.
        number: Meanings of each image and answer.

    Returns:
        The beliefs, by falling phi.
    """
    chosen: dict[tuple[int, str], set[Hashable]] = {}
    first = []
    for belief in sorted(beliefs, key=lambda belief: -belief.phi):
        known = chosen.setdefault((belief.image_id, belief.answer), set())
        if len(known) < number and (sense := means(belief.question)) not in known:
            known.add(sense)
            first.append(belief)
    return first
