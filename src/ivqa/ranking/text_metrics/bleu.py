"""BLEU of main questions with every question of a pool."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ivqa.metrics.bleu import SMALL, TINY
from ivqa.ranges import Count
from ivqa.ranking.text_metrics.clipped_counts import ClippedCounts, ones
from ivqa.ranking.text_metrics.ranker import TextMetricRanker


@dataclass(frozen=True)
class BleuRanker(TextMetricRanker):
    """Sentence BLEU-`order`, with the guards of the COCO evaluation in place of smoothing.

    Raises ValueError for an order below 1.
    """

    order: Count = 4

    def __post_init__(self) -> None:
        if self.order < 1:
            raise ValueError(f"BLEU needs an order of at least 1, not {self.order}")

    def scores(self, pool: Sequence[Sequence[str]]) -> "BleuScores":
        """BLEU in [0, 1] with each of the N questions of the pool."""
        return BleuScores(pool, self.order)


class BleuScores:
    """BLEU-`order` of hypotheses, the N questions of a pool, for references given later."""

    def __init__(self, pool: Sequence[Sequence[str]], order: int) -> None:
        self.lengths = np.array([len(words) for words in pool], dtype=np.int64)
        self.counts = [ClippedCounts(pool, n) for n in range(1, order + 1)]
        self.pool = [ones(own.slots(own.counts), np.int32).T.tocsr() for own in self.counts]

    def __call__(self, references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Scores (B, N)."""
        product = np.ones((len(references), len(self.lengths)))
        for order, (own, pool) in enumerate(zip(self.counts, self.pool, strict=True), start=1):
            wanted = ones(own.slots(own.of(references)), np.int32)
            correct = (wanted @ pool).toarray()
            product *= (correct + TINY) / (np.maximum(self.lengths - order + 1, 0) + SMALL)
        product **= 1 / len(self.counts)
        product *= self._brevity(np.array([len(words) for words in references]))
        return product

    def _brevity(self, references: NDArray[np.int64]) -> NDArray[np.float64]:
        ratio = (self.lengths + TINY) / (references[:, None] + SMALL)
        return np.exp(np.minimum(1 - 1 / ratio, 0))
