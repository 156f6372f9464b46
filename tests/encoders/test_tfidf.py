"""Tf-idf vectors computed by hand, and their reduction by NumPy's SVD."""

import numpy as np
import pytest

from ivqa.encoders.tfidf import TfidfEncoder

CORPUS = ["Is the dog red?", "is the cat red", "what is that", "What colour is the dog?", "the cat"]


def test_without_reduction_it_is_tfidf_by_hand() -> None:
    # One text leaves no direction to reduce to. Its n-grams are: a, a red, dog, red, red dog.
    encoder = TfidfEncoder(min_count=1).fit(["a red dog"])
    vectors = encoder.encode(["A dog!", "a red", "zebra", ""])
    half, third = 1 / np.sqrt(2), 1 / np.sqrt(3)
    expected = [[half, 0, half, 0, 0], [third, third, 0, third, 0], [0] * 5, [0] * 5]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert vectors.dtype == np.float32


def test_the_reduction_is_the_singular_value_decomposition() -> None:
    words = sorted({word for text in CORPUS for word in text.lower().rstrip("?").split()})
    texts = [text.lower().rstrip("?").split() for text in CORPUS]
    counts = np.array([[text.count(word) for word in words] for text in texts], dtype=float)
    weighted = counts * (np.log((1 + len(texts)) / (1 + (counts > 0).sum(axis=0))) + 1)
    weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
    _, _, directions = np.linalg.svd(weighted, full_matrices=False)
    reduced = weighted @ directions[:3].T
    reduced /= np.linalg.norm(reduced, axis=1, keepdims=True)
    vectors = TfidfEncoder(size=3, longest=1, min_count=1).fit(CORPUS).encode(CORPUS)
    # Up to the signs of the axes, which the inner products do not depend on.
    np.testing.assert_allclose(vectors @ vectors.T, reduced @ reduced.T, atol=1e-5)
    np.testing.assert_allclose(np.abs(vectors), np.abs(reduced), atol=1e-5)


def test_two_fits_on_repeated_texts_agree_about_new_texts() -> None:
    # Four different texts span four directions. Which others a solver finds is arbitrary.
    times = {"a red star": 20, "a blue star": 12, "two red circles": 7, "the square": 4}
    texts = [text for text, number in times.items() for _ in range(number)]
    new = ["a red circle", "two blue squares", "the blue circle"]
    encodings = [TfidfEncoder().fit(texts).encode(new) for _ in range(4)]
    assert encodings[0].shape == (3, 4)
    for other in encodings[1:]:
        np.testing.assert_allclose(other, encodings[0], atol=1e-6)


def test_rare_words_are_unknown() -> None:
    encoder = TfidfEncoder(size=2, min_count=2).fit(CORPUS)
    assert not encoder.encode(["that colour"]).any()
    assert encoder.encode([]).shape == (0, 2)


@pytest.mark.parametrize("corpus", [[], ["?"], ["red", "blue"]])
def test_a_corpus_without_frequent_words_is_rejected(corpus: list[str]) -> None:
    with pytest.raises(ValueError, match=rf"no word occurs in 2 of {len(corpus)} texts"):
        TfidfEncoder().fit(corpus)


def test_sizes_below_one_and_a_missing_fit_are_rejected() -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        TfidfEncoder(size=0)
    with pytest.raises(ValueError, match="call fit first"):
        TfidfEncoder().encode(["red"])
