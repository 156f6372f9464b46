"""VQABQ: statistics of the scores, and the search of thresholds [IJCV, Tables 5 to 7]."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.robustness.vqabq import (
    BestBasicQuestions,
    ThresholdSearch,
    differs_when_independent,
    ratio_statistics,
    selection_figures,
)


def _number(scores: Sequence[float], thresholds: Sequence[float]) -> int:
    """Algorithm 1 for one question, as the paper writes it, with nested conditions."""
    first, second, third = scores[:3]
    if first > thresholds[0]:
        if second / first > thresholds[1]:
            if second > 0 and third / second > thresholds[2]:
                return 3
            return 2
        return 1
    return 0


def _scores() -> NDArray[np.float64]:
    scores = -np.sort(-np.random.default_rng(0).random((60, 5)), axis=1)
    scores[:4] = 0  # no basic question has a score
    scores[4:12, 1:] = 0  # the second and third are 0 / positive and 0 / 0
    scores[12:16, 2:] = 0
    return scores


def test_the_search_finds_what_every_selection_on_its_own_gives() -> None:
    scores = _scores()
    accuracies = np.random.default_rng(1).integers(0, 4, (4, len(scores))) / 3
    deviations = [-1.0, -0.25, 0.5, 3.0]
    search = ThresholdSearch(scores, accuracies, deviations)
    positive = [row for row in scores if row[0] > 0]
    two = [row[1] / row[0] for row in positive]
    three = [row[2] / row[1] for row in positive if row[1] > 0]
    grid = [
        sorted({max(0.0, np.mean(values) + d * np.std(values)) for d in deviations})
        for values in (scores[:, 0], two, three)
    ]
    found = {}
    for triple in product(*grid):
        counts = [_number(row, triple) for row in scores.tolist()]
        chosen = [accuracies[count, at] for at, count in enumerate(counts)]
        # Compared in this order: the accuracy, the number of appended questions, the thresholds.
        found[triple] = (round(-sum(chosen) / len(scores), 9), sum(counts), triple)
    means = -np.array([value for value, _, _ in found.values()])
    shape = [len(values) for values in grid]
    assert search.means(accuracies) == pytest.approx(means.reshape(shape), abs=1e-8)
    best = min(found, key=lambda triple: found[triple])
    assert search.best == pytest.approx(best)
    assert search.accuracy == pytest.approx(-found[best][0])


def test_of_equal_accuracies_the_fewest_basic_questions_win() -> None:
    scores = np.array([[0.9, 0.8, 0.7], [0.5, 0.2, 0.1]])
    search = ThresholdSearch(scores, np.ones((4, 2)), [-9, 0, 9])
    # No question passes mean + 9 deviations; of all others, which append as few, the lowest.
    assert search.best[0] == pytest.approx(0.7 + 9 * 0.2)
    assert search.best[1:] == (0, 0)


def test_statistics_of_scores_by_hand() -> None:
    scores = np.array([[0.8, 0.4, 0.1], [0.4, 0.0, 0.0], [0.0, 0.0, 0.0]])
    figures = ratio_statistics(scores)
    assert figures == pytest.approx(
        {
            "score1": 0.4,
            "score1_std": (0.32 / 3) ** 0.5,  # of 0.4, 0 and 0.4
            "score2_over_score1": 0.25,  # of 0.5 and 0: the third question has 0 / 0
            "score2_over_score1_std": 0.25,
            "score3_over_score2": 0.25,  # of the first question alone
            "score3_over_score2_std": 0.0,
        }
    )
    shares = selection_figures(scores, (0.3, 0.3, 0.3))
    assert [shares[f"helpful_{count}"] for count in range(4)] == pytest.approx([1 / 3] * 3 + [0])


def test_scores_of_zero_append_nothing() -> None:
    search = ThresholdSearch(np.zeros((2, 3)), np.array([[0, 0], [1, 1], [1, 1], [1, 1]]), [-1, 1])
    assert search.best == (0, 0, 0)
    assert search.accuracy == 0
    assert "score2_over_score1" not in ratio_statistics(np.zeros((2, 3)))
    with pytest.raises(UserError, match="main question 1 are not finite"):
        ratio_statistics(np.array([[0.1], [np.nan]]))


def test_the_independent_reading_differs_where_a_better_question_does_not_pass() -> None:
    # In the first row score2 / score1 passes alone, in the last one score3 / score2.
    scores = np.array([[0.5, 0.4, 0.1], [0.7, 0.5, 0.4], [0.5, 0.1, 0.0], [0.5, 0.1, 0.1]])
    assert differs_when_independent(scores) == 0.5


def test_each_level_appends_one_more_of_the_best() -> None:
    class Source:
        def ranked(
            self, questions: Sequence[str], training: Sequence[str]
        ) -> tuple[list[list[str]], NDArray[np.float32]]:
            return [["a?", "b?", "c?", "d?"], ["e?"]], np.zeros((2, 4), np.float32)

    levels = BestBasicQuestions(Source()).disturbed(["Q?", "R?"], [])
    assert levels == [
        ["Q? a?", "R? e?"],
        ["Q? a? b?", "R? e?"],
        ["Q? a? b? c?", "R? e?"],
    ]
