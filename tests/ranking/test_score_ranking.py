"""Rankings by scores: order, ties, excluded rows, and the sizes of the slices."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.ranking import Ranking, rank_by_scores, score_ranking
from ivqa.ranking.score_ranking import best_columns

SCORES = np.array([[0.5, 0.0, 1.0, 0.5], [0.0, 0.25, 0.0, -1.0], [3.0, 2.0, 1.0, 0.0]])


def test_the_best_rows_that_are_not_excluded_count() -> None:
    exclude = [[2], [], [0, 0]]
    found = rank_by_scores(lambda part: SCORES[part].copy(), (3, 4), 3, exclude)
    assert found.indices.tolist() == [[0, 3, 1], [1, 0, 2], [1, 2, 3]]
    assert found.scores.tolist() == [[0.5, 0.5, 0], [0.25, 0, 0], [2, 1, 0]]
    assert (found.indices.dtype, found.scores.dtype) == (np.int64, np.float32)
    assert found.support.tolist() == [2, 1, 2]
    assert (found.gap.tolist(), found.rounds) == ([0, 0, 0], 0)


def test_as_many_rows_as_are_left_can_be_ranked() -> None:
    whole = rank_by_scores(lambda part: SCORES[part].copy(), (3, 4), 4, [[]] * 3)
    assert whole.indices.tolist() == [[2, 0, 3, 1], [1, 0, 2, 3], [0, 1, 2, 3]]
    with pytest.raises(UserError, match="only 3 questions to rank, but k is 4"):
        rank_by_scores(lambda part: SCORES[part].copy(), (3, 4), 4, [[], [1, 1], []])
    with pytest.raises(ValueError, match="exclude has 2 entries for 3 main questions"):
        rank_by_scores(lambda part: SCORES[part].copy(), (3, 4), 1, [[], []])
    nothing = rank_by_scores(lambda part: SCORES[part].copy(), (0, 4), 4, [])
    assert nothing.indices.shape == (0, 4)


@pytest.mark.parametrize(
    ("at_once", "rows", "slices"),
    [
        (25, None, [(0, 2), (2, 4), (4, 5)]),  # two rows have 20 scores
        (10, None, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]),
        (9, None, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]),  # at least one row
        (9, 3, [(0, 3), (3, 5)]),
    ],
)
def test_scores_are_computed_in_slices(
    at_once: int,
    rows: int | None,
    slices: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(score_ranking, "_PAIRS_AT_ONCE", at_once)
    table, asked = np.random.default_rng(0).random((5, 10)), []

    def scores(part: slice) -> NDArray[np.float64]:
        asked.append((part.start, part.stop))
        return table[part].copy()

    found = rank_by_scores(scores, (5, 10), 10, [[]] * 5, rows_at_once=rows)
    assert asked == slices
    assert found.indices.tolist() == np.argsort(-table, axis=1).tolist()


def test_of_equal_values_the_first_columns_count() -> None:
    values = np.tile([1.0, 0.0, 1.0], (2, 400))
    columns = [*range(0, 1200, 3), *range(2, 1200, 3), *range(1, 1200, 3)]
    ordered = [*sorted(columns[:800]), *columns[800:]]
    for k in (1, 799, 801, 1200):
        assert best_columns(values, k).tolist() == [ordered[:k]] * 2


def test_a_ranking_needs_no_more_than_its_rows() -> None:
    bare = Ranking(np.array([[3, 1], [0, 2]]))
    assert (bare.scores.tolist(), bare.scores.dtype) == ([[0, 0], [0, 0]], np.float32)
    assert (bare.gap.tolist(), bare.support.tolist(), bare.rounds) == ([0, 0], [0, 0], 0)
    assert bare.certified.tolist() == [True, True]
    scored = Ranking(bare.indices, np.float32([[0.5, 0.25], [0.5, -1]]))
    assert scored.support.tolist() == [2, 1]
    assert Ranking(bare.indices, scored.scores, support=np.array([0, 0])).support.tolist() == [0, 0]


def test_scores_may_be_counts() -> None:
    found = rank_by_scores(lambda part: np.array([[1, 3, 2]])[part], (1, 3), 2, [[1]])
    assert (found.indices.tolist(), found.scores.tolist()) == ([[2, 0]], [[2, 1]])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[0.5, np.nan, 1.0]], "must be numbers of shape .1, 3. without NaN"),
        ([[0.5, 1.0]], "without NaN, not float64 of shape .1, 2."),
        ([["a", "b", "c"]], "without NaN, not <U1 of shape .1, 3."),
        ([[0.5, np.inf, 1.0]], "a ranker's scores must be finite"),
        ([[0.5, -np.inf, -np.inf]], "a ranker's scores must be finite"),
    ],
)
def test_scores_that_cannot_be_ranked_are_refused(scores: list[list[float]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        rank_by_scores(lambda part: np.array(scores)[part], (1, 3), 2, [[]])
