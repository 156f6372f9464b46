"""Rankers of texts, with an encoder whose vectors are given."""

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import pytest
from numpy.typing import NDArray

from ivqa.ranking import CosineRanker, LassoQuestionRanker, RandomRanker

VECTORS = MappingProxyType(
    {"a": [1, 0], "b": [0.6, 0.8], "c": [0, 1], "d": [-1, 0], "none": [0, 0], "like b": [0.6, 0.8]}
)


class _Given:
    """An encoder of the texts of VECTORS, scaled."""

    def __init__(self, scale: float = 1) -> None:
        self.scale = scale

    def fit(self, texts: Sequence[str]) -> "_Given":
        return self

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.scale * np.array([VECTORS[text] for text in texts], dtype=np.float32)


def test_scores_are_cosines() -> None:
    pool = ["c", "like b", "d", "a", "b", "none"]
    found = CosineRanker(_Given()).rank(["a", "b"], pool, 4, [[], [1, 4]])
    assert found.indices.tolist() == [[3, 1, 4, 0], [0, 3, 5, 2]]
    assert found.scores == pytest.approx(np.array([[1, 0.6, 0.6, 0], [0.8, 0.6, 0, -0.6]]))
    assert found.gap.tolist() == [0, 0]
    once = CosineRanker(_Given(), deduplicate=0.99).rank(["a", "b"], pool, 4, [[], [4]])
    assert once.indices.tolist() == [[3, 1, 0, 5], [0, 3, 5, 2]]


def test_many_questions_are_ranked_in_slices() -> None:
    questions = ["a", "c"] * 150
    found = CosineRanker(_Given()).rank(questions, ["a", "b", "c"], 3, [[]] * 300)
    assert found.indices.tolist() == [[0, 1, 2], [2, 1, 0]] * 150


@pytest.mark.parametrize("ranker", [CosineRanker, LassoQuestionRanker])
def test_vectors_have_length_1_up_to_the_rounding_of_float16(ranker: type) -> None:
    """The square of the length may differ from 1 by 1e-3."""
    for length in (1.0004, 0.9996):
        ranking = ranker(_Given(length)).rank(["a"], ["b", "c", "none"], 1, [[]])
        assert ranking.indices.tolist() == [[0]]
    for length in (1.001, 0.999):
        with pytest.raises(ValueError, match=f"_Given: the vector of 'b' has length {length}, not"):
            ranker(_Given(length)).rank(["a"], ["b", "c"], 1, [[]])


@pytest.mark.parametrize(("lam", "alpha"), [(None, None), (1e-6, 1e-6)])
def test_lasso_takes_one_weight(lam: float | None, alpha: float | None) -> None:
    with pytest.raises(ValueError, match="takes lam or alpha, one of the two"):
        LassoQuestionRanker(_Given(), lam=lam, alpha=alpha).rank(["a"], ["b"], 1, [[]])


def test_lasso_has_its_closed_form_for_orthogonal_questions() -> None:
    """1/2 |a - B x|^2 + lam |x|_1 has coefficients max(cosine - lam, 0) for orthogonal B."""
    found = LassoQuestionRanker(_Given(), lam=0.4).rank(["b", "b"], ["a", "d", "c"], 2, [[], [2]])
    assert found.indices[0].tolist() == [2, 0]
    assert found.scores[0] == pytest.approx([0.4, 0.2], abs=1e-6)
    assert found.scores[1] == pytest.approx([0.2, 0], abs=1e-6)


def test_a_random_ranking_depends_on_its_question_and_the_seed_alone() -> None:
    pool = [str(number) for number in range(30)]
    asked = [f"Why {number}?" for number in range(600)]
    found = RandomRanker().rank(asked, pool, 4, [[]] * 600)
    assert (
        found.indices.tolist() == RandomRanker(0).rank(asked, pool, 4, [[]] * 600).indices.tolist()
    )
    alone = RandomRanker().rank(asked[7:8], pool, 4, [[]])
    assert alone.indices[0].tolist() == found.indices[7].tolist()
    other = RandomRanker(seed=1).rank(asked, pool, 4, [[]] * 600)
    assert (found.indices == other.indices).mean() == pytest.approx(1 / 30, abs=0.02)
    assert all(len(set(row)) == 4 for row in found.indices.tolist())
    # Each of 30 rows is drawn 80 times on average, with a standard deviation of 8.3.
    assert abs(np.bincount(found.indices.ravel(), minlength=30) - 80).max() < 40
    assert (found.scores.dtype, found.scores.tolist()) == (np.float32, [[0] * 4] * 600)
    assert (found.gap.tolist(), found.support.tolist(), found.rounds) == ([0] * 600, [0] * 600, 0)
    assert (found.indices.dtype, found.support.dtype) == (np.int64, np.int64)


def test_a_random_ranking_leaves_out_what_is_excluded() -> None:
    found = RandomRanker().rank(["Why?", "Who?"], ["a", "b", "c"], 2, [[1], [0, 0]])
    assert [sorted(row) for row in found.indices.tolist()] == [[0, 2], [1, 2]]
    with pytest.raises(ValueError, match="only 2 questions to rank, but k is 3"):
        RandomRanker().rank(["Why?"], ["a", "b", "c"], 3, [[1]])
