"""Clipped n-gram matches of main questions with a whole pool, as sparse matrix products.

min(a, b) = sum_j [a >= j] [b >= j]. If "the n-gram occurs at least j times" has a column of its
own, the product of two 0/1 matrices counts clipped matches.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

from ivqa.metrics.captions.ngrams import NGramIndex


class ClippedCounts:
    """N-grams of one order in a pool, with a slot for each pair (n-gram, level j).

    Attributes:
        counts: Counts of the pool, (N, n-grams).
        gram: The column of `counts` of each slot, (slots,).
        level: The level j of each slot, (slots,), from 1.
    """

    def __init__(self, pool: Sequence[Sequence[str]], order: int) -> None:
        self.index = NGramIndex(order)
        self.counts = self.index.counts(pool)
        # The most occurrences of each n-gram in one question.
        most = np.zeros(self.counts.shape[1], dtype=np.int64)
        np.maximum.at(most, self.counts.indices, self.counts.data.astype(np.int64))
        self.gram = np.repeat(np.arange(len(most)), most)
        first = np.cumsum(most) - most
        # The slots of an n-gram follow each other, from level 1 on.
        self.level = np.arange(len(self.gram)) - first[self.gram] + 1

    def of(self, questions: Sequence[Sequence[str]]) -> csr_matrix:
        """Counts (B, n-grams) of B tokenised questions; n-grams that the pool lacks come last."""
        return self.index.counts(questions)

    def slots(self, counts: csr_matrix) -> csr_matrix:
        """Counts (B, slots) of each slot's n-gram where they reach the slot's level, else 0."""
        # (B, slots): an n-gram's count, repeated in each of its slots.
        spread = counts[:, self.gram]
        spread.data[spread.data < self.level[spread.indices]] = 0
        spread.eliminate_zeros()
        return spread


def ones(matrix: csr_matrix, dtype: type = np.float64) -> csr_matrix:
    """Sets every stored entry of a matrix to 1."""
    return csr_matrix(
        (np.ones(matrix.nnz, dtype), matrix.indices, matrix.indptr), shape=matrix.shape
    )
