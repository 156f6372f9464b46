"""Whitened encodings against the Mahalanobis distance of scipy."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import LedoitWolf

from ivqa.encoders.whitened import WhitenedEncoder
from ivqa.ranking import LassoRanker


class _Given:
    """Texts that are numbers of rows."""

    def __init__(self, vectors: NDArray[np.float64]) -> None:
        self.vectors, self.fitted = vectors, 0

    def fit(self, texts: Sequence[str]) -> "_Given":
        self.fitted += 1
        return self

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.vectors[[int(text) for text in texts]].astype(np.float32)


def _vectors(number: int = 60, size: int = 6) -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    # Directions of very different spread, and a mean that is not 0.
    found = rng.normal(size=(number, size)) * [10, 3, 1, 1, 0.3, 0.1] + 2
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_products_are_those_of_the_inverse_covariance() -> None:
    given = _Given(_vectors())
    texts = [str(row) for row in range(60)]
    encoder = WhitenedEncoder(given).fit(texts)
    found = encoder.encode(texts)
    assert found.dtype == np.float32
    vectors = given.encode(texts).astype(np.float64)
    inverse = np.linalg.inv(LedoitWolf().fit(vectors).covariance_)
    for row, other in ((0, 1), (5, 40), (7, 7)):
        norms = [mahalanobis(vectors[at], np.zeros(6), inverse) for at in (row, other)]
        expected = vectors[row] @ inverse @ vectors[other] / np.prod(norms)
        assert found[row] @ found[other] == pytest.approx(expected, abs=1e-4)


def test_another_distance_finds_other_basic_questions() -> None:
    given = _Given(_vectors())
    texts = [str(row) for row in range(60)]
    pool, main = texts[:50], texts[50:]
    encoder = WhitenedEncoder(given).fit(pool)
    ranked = {
        name: LassoRanker(one.encode(pool), 1e-3).rank(one.encode(main), 3).indices
        for name, one in (("euclidean", given), ("mahalanobis", encoder))
    }
    assert (ranked["euclidean"] != ranked["mahalanobis"]).any()


def test_the_given_encoder_stays_as_it_was_and_unknown_texts_are_zero() -> None:
    vectors = _vectors()
    vectors[3] = 0
    given = _Given(vectors)
    encoder = WhitenedEncoder(given).fit([str(row) for row in range(60)])
    assert given.fitted == 0
    assert encoder.encode(["3"]).tolist() == [[0.0] * 6]


def test_a_pool_smaller_than_its_dimensions_can_be_whitened() -> None:
    encoder = WhitenedEncoder(_Given(_vectors())).fit(["0", "1", "2"])
    assert np.isfinite(encoder.encode(["0", "7"])).all()


def test_a_corpus_comes_first() -> None:
    with pytest.raises(ValueError, match="call fit first"):
        WhitenedEncoder(_Given(_vectors())).encode(["1"])
