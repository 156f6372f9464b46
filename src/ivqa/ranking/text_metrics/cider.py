"""CIDEr-D of every question of a pool with main questions as references."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, hstack
from typing_extensions import override

from ivqa.metrics.captions.cider import length_penalty, lengths, row_norms
from ivqa.ranking.text_metrics.clipped_counts import ClippedCounts, ones
from ivqa.ranking.text_metrics.ranker import TextMetricRanker

# Rounding to these digits makes sums of the same terms in another order equal, as ties must be.
_DECIMALS = 9


@dataclass(frozen=True)
class CiderRanker(TextMetricRanker):
    """CIDEr-D in [0, 10], with the document frequencies of the pool; COCO calls it CIDEr."""

    version: ClassVar[int] = 1

    @override
    def scores(self, pool: Sequence[Sequence[str]]) -> "_CiderScores":
        return _CiderScores(pool)


class _CiderScores:
    """CIDEr-D of the N tokenised questions of a pool as hypotheses."""

    def __init__(self, pool: Sequence[Sequence[str]]) -> None:
        self.documents = max(len(pool), 1)
        self.lengths = lengths(pool)
        self.counts = [ClippedCounts(pool, order) for order in range(1, 5)]
        self.rarity = [self._rarity(own.counts) for own in self.counts]
        blocks = [
            _divided(ones(own.slots(own.counts)), row_norms(own.counts @ diags(rarity)))
            for own, rarity in zip(self.counts, self.rarity, strict=True)
        ]
        # (slots of all orders, N): one product with it sums over the four orders.
        self.pool = hstack(blocks, format="csr").T.tocsr()

    def __call__(self, references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Scores (B, N) for B tokenised main questions as references.

        An n-gram with counts h and r and inverse document frequency w adds
        min(h w, r w) r w = w^2 r sum_j [h >= j] [r >= j].
        """
        blocks = []
        for own, rarity in zip(self.counts, self.rarity, strict=True):
            counts = own.of(references)
            # N-grams that the pool lacks count as if one question had them: log(N / 1).
            unknown = np.full(counts.shape[1] - len(rarity), np.log(self.documents))
            norms = row_norms(counts @ diags(np.concatenate([rarity, unknown])))
            # This side has both factors w of the equation above.
            blocks.append(_divided(own.slots(counts) @ diags(rarity[own.gram] ** 2), norms))
        scores = (hstack(blocks, format="csr") @ self.pool).toarray()
        scores *= 10 / 4 * length_penalty(self.lengths - lengths(references)[:, None])
        return np.round(scores, _DECIMALS, out=scores)

    def _rarity(self, counts: csr_matrix) -> NDArray[np.float64]:
        """Inverse document frequencies: log(N / questions that have the n-gram)."""
        # Each n-gram has one entry a question, so this counts questions.
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        return np.log(self.documents) - np.log(frequency)


def _divided(matrix: csr_matrix, norms: NDArray[np.float64]) -> csr_matrix:
    """Rows divided by their norms; a row of norm 0 becomes 0."""
    return diags(np.divide(1, norms, out=np.zeros(len(norms)), where=norms > 0)) @ matrix
