"""Clipped n-gram matches of main questions with a whole pool, as sparse matrix products.

min(a, b) = sum_j [a >= j] [b >= j]: where "the n-gram for the j-th time" is a column of its own, a
product of 0/1 matrices counts clipped matches.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

from ivqa.metrics.ngrams import NGramIndex


class ClippedCounts:
    """N-grams of one order in a pool, a slot for each (n-gram, how many-th in its question).

    counts: (N, n-grams) of the pool. gram: (slots,) the column of `counts` that a slot is of.
    """

    def __init__(self, pool: Sequence[Sequence[str]], order: int) -> None:
        self.index = NGramIndex(order)
        self.counts = self.index.counts(pool)
        most = np.zeros(self.counts.shape[1], dtype=np.int64)
        np.maximum.at(most, self.counts.indices, self.counts.data.astype(np.int64))
        self.gram = np.repeat(np.arange(len(most)), most)
        first = np.cumsum(most) - most
        self.level = np.arange(len(self.gram)) - first[self.gram] + 1

    def of(self, questions: Sequence[Sequence[str]]) -> csr_matrix:
        """Counts (B, n-grams) float64; the pool's n-grams come first, unknown ones behind them."""
        return self.index.counts(questions)

    def slots(self, counts: csr_matrix) -> csr_matrix:
        """(B, slots) float64: the count of the slot's n-gram where it reaches the slot's level."""
        spread = counts[:, self.gram]
        spread.data[spread.data < self.level[spread.indices]] = 0
        spread.eliminate_zeros()
        return spread


def ones(matrix: csr_matrix, dtype: type = np.float64) -> csr_matrix:
    """The matrix with every stored entry set to 1."""
    return csr_matrix(
        (np.ones(matrix.nnz, dtype), matrix.indices, matrix.indptr), shape=matrix.shape
    )
