"""CIDEr-D of every question of a pool with main questions as references."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags, hstack
from typing_extensions import override

from ivqa.metrics.captions.cider import SIGMA
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
        self.lengths = _lengths(pool)
        self.counts = [ClippedCounts(pool, order) for order in range(1, 5)]
        self.rarity = [self._rarity(own.counts) for own in self.counts]
        blocks = [
            _divided(ones(own.slots(own.counts)), _norms(own.counts, rarity))
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
            norms = _norms(counts, np.concatenate([rarity, unknown]))
            # This side has both factors w of the equation above.
            blocks.append(_divided(own.slots(counts) @ diags(rarity[own.gram] ** 2), norms))
        scores = (hstack(blocks, format="csr") @ self.pool).toarray()
        difference = self.lengths - _lengths(references)[:, None]
        scores *= 10 / 4 * np.exp(-(difference**2) / (2 * SIGMA**2))
        return np.round(scores, _DECIMALS, out=scores)

    def _rarity(self, counts: csr_matrix) -> NDArray[np.float64]:
        """Inverse document frequencies: log(N / questions that have the n-gram)."""
        # Each n-gram has one entry a question, so this counts questions.
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        return np.log(self.documents) - np.log(frequency)


def _norms(counts: csr_matrix, rarity: NDArray[np.float64]) -> NDArray[np.float64]:
    """Norms (B,) of the tf-idf vectors of counts (B, n-grams)."""
    weighted = counts @ diags(rarity)
    return np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())


def _divided(matrix: csr_matrix, norms: NDArray[np.float64]) -> csr_matrix:
    """Rows divided by their norms; a row of norm 0 becomes 0."""
    return diags(np.divide(1, norms, out=np.zeros(len(norms)), where=norms > 0)) @ matrix


def _lengths(questions: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """Lengths in bigrams, as the COCO evaluation counts them."""
    return np.array([max(len(words) - 1, 0) for words in questions], dtype=np.int64)
