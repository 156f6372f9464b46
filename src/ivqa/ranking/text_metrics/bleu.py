"""BLEU of every question of a pool with main questions as references."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from ivqa.metrics.captions.bleu import SMALL, TINY, brevity
from ivqa.ranges import Count
from ivqa.ranking.text_metrics.clipped_counts import ClippedCounts, ones
from ivqa.ranking.text_metrics.ranker import TextMetricRanker


@dataclass(frozen=True)
class BleuRanker(TextMetricRanker):
    """Sentence BLEU, with the small constants of the COCO evaluation instead of smoothing.

    Args:
        order: The longest n-grams, at least 1: 4 is BLEU-4.

    Raises:
        ValueError: The order is below 1.
    """

    version: ClassVar[int] = 1

    order: Count = 4

    def __post_init__(self) -> None:
        if self.order < 1:
            raise ValueError(f"BLEU needs an order of at least 1, not {self.order}")

    @override
    def scores(self, pool: Sequence[Sequence[str]]) -> "_BleuScores":
        return _BleuScores(pool, self.order)


class _BleuScores:
    """BLEU of the N tokenised questions of a pool as hypotheses, up to n-grams of `order`."""

    def __init__(self, pool: Sequence[Sequence[str]], order: int) -> None:
        self.lengths = np.array([len(words) for words in pool], dtype=np.int64)
        self.counts = [ClippedCounts(pool, n) for n in range(1, order + 1)]
        # (slots, N) of 0 and 1 for each order.
        self.pool = [ones(own.slots(own.counts), np.int32).T.tocsr() for own in self.counts]

    def __call__(self, references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Scores (B, N) for B tokenised main questions as references."""
        product = np.ones((len(references), len(self.lengths)))
        for order, (own, pool) in enumerate(zip(self.counts, self.pool, strict=True), start=1):
            # (B, slots) @ (slots, N) counts clipped matches; see `clipped_counts`.
            wanted = ones(own.slots(own.of(references)), np.int32)
            correct = (wanted @ pool).toarray()
            product *= (correct + TINY) / (np.maximum(self.lengths - order + 1, 0) + SMALL)
        product **= 1 / len(self.counts)
        product *= brevity(self.lengths, np.array([[len(words)] for words in references]))
        return product
