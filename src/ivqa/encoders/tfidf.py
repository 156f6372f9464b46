"""Tf-idf of words and word pairs, reduced by a truncated SVD (latent semantic analysis)."""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from typing_extensions import override

from ivqa.encoders.encoder import SentenceEncoder, unit_rows
from ivqa.errors import UserError
from ivqa.ranges import Count
from ivqa.text.tokens import tokenise


class TfidfEncoder(SentenceEncoder):
    """Tf-idf vectors of n-grams, reduced to a few dimensions by a truncated SVD (LSA).

    A tf-idf vector holds the count of each n-gram times log((1 + N) / (1 + n_t)) + 1, at unit l2
    norm; n_t of the N texts of the corpus contain the n-gram t.

    Args:
        size: Dimensions of an encoding, >= 1. Few different texts or n-grams give fewer.
        longest: Words of the longest n-gram, >= 1.
        min_count: Number of texts that an n-gram must occur in, >= 1.

    Raises:
        UserError: An argument is below 1.

    Example:
        >>> encoder = TfidfEncoder(size=2, min_count=1).fit(["a red dog", "a red cat", "two cats"])
        >>> encoder.encode(["Two cats?", "a zebra", "why"]).shape
        (3, 2)
    """

    version: ClassVar[int] = 1

    def __init__(self, size: Count = 256, longest: Count = 2, min_count: Count = 2) -> None:
        if size < 1 or longest < 1 or min_count < 1:
            raise UserError("size, longest and min_count of the encoder must be at least 1")
        self.size, self.longest, self.min_count = size, longest, min_count
        self._vectorizer: TfidfVectorizer | None = None
        self._basis: NDArray[np.float64] = np.zeros((0, 0))  # (terms, d)

    @override
    def fit(self, texts: Sequence[str]) -> Self:
        vectorizer = TfidfVectorizer(
            tokenizer=tokenise,
            token_pattern=None,
            lowercase=False,  # tokenise does that
            ngram_range=(1, self.longest),
            min_df=self.min_count,
        )
        try:
            matrix = vectorizer.fit_transform(texts)  # (N, terms)
        except ValueError as error:  # no n-gram is left
            raise UserError(f"no word occurs in {self.min_count} of {len(texts)} texts") from error
        self._vectorizer = vectorizer
        # ARPACK finds at most min(N, terms) - 1 directions.
        rank = min(self.size, min(matrix.shape) - 1)
        if rank < 1:
            # A single text or n-gram: the tf-idf vectors are not reduced.
            self._basis = np.eye(matrix.shape[1])
            return self
        # The largest direction comes first; its largest entry is positive, so that the sign does
        # not depend on the solver. tol=0 means machine precision.
        svd = TruncatedSVD(rank, algorithm="arpack", random_state=0, tol=0.0).fit(matrix)
        # Repeated texts span fewer directions; ARPACK draws the others anew in every call.
        values = svd.singular_values_
        spanned = values > values[0] * max(matrix.shape) * np.finfo(np.float64).eps
        self._basis = svd.components_[spanned].T
        return self

    @override
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._vectorizer is None:
            raise ValueError("this encoder has not seen a corpus; call fit first")
        if not texts:
            return np.zeros((0, self._basis.shape[1]), dtype=np.float32)
        return unit_rows(np.asarray(self._vectorizer.transform(texts) @ self._basis))
