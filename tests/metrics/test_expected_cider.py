"""Expected CIDEr-D: every pair of texts scored one by one."""

import numpy as np
import pytest

from ivqa.metrics import CiderStatistics, cider_scores, expected_cider

WORDS = ["is", "the", "star", "red", "there", "a", "big"]


def _texts(rng: np.random.Generator, number: int) -> list[str]:
    # Up to 9 words of 7: words and pairs of words repeat, so clipping matters.
    return [" ".join(rng.choice(WORDS, size=rng.integers(1, 10))) for _ in range(number)]


def test_it_is_the_weighted_mean_over_the_texts_of_the_group() -> None:
    rng = np.random.default_rng(1)
    texts = _texts(rng, 40)
    texts[3], texts[20] = texts[1], texts[1]  # repeated in its group, and in another group
    group = np.sort(rng.integers(0, 4, size=40)) * 5
    weights = rng.random(40)
    statistics = CiderStatistics.of([[text] for text in _texts(rng, 60)])
    found = expected_cider(texts, group, weights, statistics)
    for row, text in enumerate(texts):
        others = np.flatnonzero(group == group[row])
        scores = [cider_scores([text], [[texts[other]]], statistics)[0] for other in others]
        expected = np.average(scores, weights=weights[others])
        assert found[row] == pytest.approx(expected, abs=1e-9), row


def test_the_consensus_is_not_the_heaviest_text() -> None:
    texts = [
        "is it day now",
        "is the red star big",
        "is the red star there",
        "is the red star a star",
    ]
    statistics = CiderStatistics.of([[text] for text in [*texts, "why", "who", "where"]])
    found = expected_cider(texts, np.zeros(4, int), np.array([0.31, 0.23, 0.23, 0.23]), statistics)
    assert found.argmax() != 0
    alone = expected_cider(texts, np.zeros(4, int), np.array([1.0, 0, 0, 0]), statistics)
    assert alone[0] == pytest.approx(10)


def test_no_texts_have_no_scores() -> None:
    statistics = CiderStatistics.of([["why"]])
    assert len(expected_cider([], np.zeros(0, int), np.zeros(0), statistics)) == 0


def test_lists_of_different_lengths_are_refused() -> None:
    statistics = CiderStatistics.of([["why"]])
    with pytest.raises(ValueError, match="2 texts, 1 groups and 2 weights"):
        expected_cider(["a", "b"], np.zeros(1, int), np.ones(2), statistics)
