"""Tf-idf of words and word pairs, reduced by a truncated SVD (latent semantic analysis)."""

from collections import Counter
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

from ivqa.encoders.encoder import unit_rows
from ivqa.errors import UserError
from ivqa.ranges import Count
from ivqa.text.tokens import tokenise


class TfidfEncoder:
    """Tf-idf of words and word pairs, reduced to `size` dimensions by a truncated SVD (LSA).

    longest: words of an n-gram. min_count: texts that an n-gram must occur in.
    """

    def __init__(self, size: Count = 256, longest: Count = 2, min_count: Count = 2) -> None:
        if size < 1 or longest < 1 or min_count < 1:
            raise UserError("size, longest and min_count of the encoder must be at least 1")
        self.size, self.longest, self.min_count = size, longest, min_count
        self._terms: dict[tuple[str, ...], int] = {}
        self._weight: NDArray[np.float64] = np.zeros(0)
        self._basis: NDArray[np.float64] = np.zeros((0, 0))

    def fit(self, texts: Sequence[str]) -> Self:
        """Learns terms, their idf, and the principal directions of the corpus.

        Raises UserError where no term is frequent enough.
        """
        frequency = Counter(term for text in texts for term in set(self._grams(text)))
        kept = sorted(term for term, count in frequency.items() if count >= self.min_count)
        if not kept:
            raise UserError(f"no word occurs in {self.min_count} of {len(texts)} texts")
        self._terms = {term: at for at, term in enumerate(kept)}
        counts = np.array([frequency[term] for term in kept])
        self._weight = np.log((1 + len(texts)) / (1 + counts)) + 1
        matrix = self._matrix(texts)
        rank = min(self.size, min(matrix.shape) - 1)
        if rank < 1:
            self._basis = np.eye(len(kept))
            return self
        start = np.random.default_rng(0).standard_normal(min(matrix.shape))
        _, values, directions = svds(matrix, k=rank, v0=start)
        # Larger directions first, and with a sign that does not depend on the solver.
        directions = directions[np.argsort(-values)]
        largest = np.abs(directions).argmax(axis=1)
        directions *= np.sign(directions[np.arange(rank), largest])[:, None]
        self._basis = directions.T
        return self

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, size) float32. Raises ValueError before `fit`."""
        if not self._terms:
            raise ValueError("this encoder has not seen a corpus; call fit first")
        return unit_rows(np.asarray(self._matrix(texts) @ self._basis))

    def _matrix(self, texts: Sequence[str]) -> csr_matrix:
        rows, columns = [], []
        for row, text in enumerate(texts):
            known = [self._terms[term] for term in self._grams(text) if term in self._terms]
            rows += [row] * len(known)
            columns += known
        shape = (len(texts), len(self._terms))
        counts = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
        weighted = counts.multiply(self._weight[None]).tocsr()
        norms = np.sqrt(np.asarray(weighted.multiply(weighted).sum(axis=1)).ravel())
        return weighted.multiply(1 / np.maximum(norms, 1e-12)[:, None]).tocsr()

    def _grams(self, text: str) -> list[tuple[str, ...]]:
        words = tokenise(text)
        return [
            tuple(words[at : at + length])
            for length in range(1, self.longest + 1)
            for at in range(len(words) - length + 1)
        ]
