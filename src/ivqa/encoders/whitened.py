"""Encodings whitened on the pool, for ranking by the Mahalanobis distance."""

from collections.abc import Sequence
from copy import copy
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import LedoitWolf
from typing_extensions import override

from ivqa.encoders.encoder import SentenceEncoder, unit_rows


class WhitenedEncoder(SentenceEncoder):
    """Encodings of another encoder, multiplied by the inverse root of their covariance.

    LASSO and the cosine measure distances between vectors v. With Sigma^(-1/2) v instead, the
    squared error of LASSO is |A x - b|^2 in the Mahalanobis distance of the pool, so directions in
    which all questions differ count less. The papers call for other distances; whitened
    sentence embeddings are known to rank better by cosine (Su et al. 2021, arXiv:2103.15316). Here
    the vectors are not centred, because A x is no weighted mean: x does not sum to 1.

    Sigma is the estimate of Ledoit and Wolf (2004), which can be inverted whatever the size of the
    pool.

    Args:
        encoder: The encoder whose vectors are whitened; a copy of it is fitted.

    Example:
        >>> from ivqa.encoders.tfidf import TfidfEncoder
        >>> encoder = WhitenedEncoder(TfidfEncoder(size=2, min_count=1))
        >>> encoder.fit(["a red dog", "a red cat", "two cats"]).encode(["a dog?"]).shape
        (1, 2)
    """

    version: ClassVar[int] = 1

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        self._root: NDArray[np.float64] | None = None  # Sigma^(-1/2), (d, d)

    @override
    def fit(self, texts: Sequence[str]) -> Self:
        self.encoder = copy(self.encoder).fit(texts)
        vectors = np.asarray(self.encoder.encode(texts), dtype=np.float64)
        covariance = LedoitWolf(store_precision=False).fit(vectors).covariance_
        values, directions = np.linalg.eigh(covariance)
        # The symmetric root does not depend on the signs of the eigenvectors.
        values = values.clip(min=np.finfo(np.float64).eps * max(values.max(), 1))
        self._root = (directions / np.sqrt(values)) @ directions.T
        return self

    @override
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._root is None:
            raise ValueError("this encoder has not seen a corpus; call fit first")
        return unit_rows(np.asarray(self.encoder.encode(texts), dtype=np.float64) @ self._root)
