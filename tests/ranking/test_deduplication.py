import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

from ivqa.encoders.tfidf import TfidfEncoder
from ivqa.ranking import CosineRanker, LassoQuestionRanker, QuestionRanker
from ivqa.ranking.deduplication import near_duplicates

POOL = [f"what color is the {noun}" for noun in ("car", "bus", "cat", "dog", "tree", "house")]
POOL += [f"how many {noun} are there" for noun in ("cars", "dogs", "trees")]


def _clusters(rows: int, size: int, spread: float) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(rows // 6, size))
    vectors = centres[rng.integers(len(centres), size=rows)] + spread * rng.normal(
        size=(rows, size)
    )
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("threshold", [0.5, 0.9, 0.98])
@pytest.mark.parametrize("size", [8, 200])
def test_groups_equal_those_of_a_plain_loop(
    threshold: float, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ivqa.ranking.deduplication._BLOCK", 64)
    vectors = np.concatenate([_clusters(500, size, 0.15), np.zeros((3, size), "f4")])
    cosines, expected = vectors.astype(float) @ vectors.T.astype(float), []
    for row in range(len(vectors)):
        over = [at for at in range(row) if expected[at] == at and cosines[row, at] > threshold]
        expected.append(over[0] if over else row)
    found = near_duplicates(vectors, threshold)
    assert found.tolist() == expected
    assert 10 < len(set(expected)) < 503
    assert expected[-3:] == [
        500,
        501,
        502,
    ]  # zero vectors, of texts without a known word, are no duplicates


def test_memory_maps_empty_pools_and_thresholds(tmp_path: object) -> None:
    vectors = _clusters(200, 80, 0.05)
    np.save(f"{tmp_path}/pool.npy", vectors)
    mapped = np.load(f"{tmp_path}/pool.npy", mmap_mode="r")
    assert np.array_equal(near_duplicates(mapped, 0.98), near_duplicates(vectors, 0.98))
    assert near_duplicates(vectors[:0], 0.98).shape == (0,)
    with pytest.raises(ValueError, match=r"must be in \(0, 1\), not 1.5"):
        near_duplicates(vectors, 1.5)


@pytest.mark.parametrize("kind", [CosineRanker, LassoQuestionRanker])
def test_rankings_without_near_duplicates_have_rows_of_the_whole_pool(kind: type) -> None:
    encoder = TfidfEncoder(size=24, min_count=1)
    doubled = [question for question in POOL for _ in range(3)]  # three copies of each
    plain: QuestionRanker = kind(encoder)
    once: QuestionRanker = kind(encoder, deduplicate=0.98)
    questions = ["what color is the horse", "how many cars are there"]
    found = once.rank(questions, doubled, 6, [[], []])
    assert (found.indices % 3 == 0).all()  # the first of each group
    alone = kind(TfidfEncoder(size=24, min_count=1)).rank(questions, doubled[::3], 6, [[], []])
    assert found.indices.shape == alone.indices.shape == (2, 6)
    assert len({doubled[row] for row in found.indices[0]}) == 6
    if kind is CosineRanker:  # LASSO gives a second copy no weight
        repeated = plain.rank(questions, doubled, 6, [[], []])
        assert len({doubled[row] for row in repeated.indices[0]}) < 6
    # Excluding one copy excludes its whole group.
    own = once.rank(questions, doubled, 6, [[], [doubled.index("how many cars are there") + 1]])
    assert "how many cars are there" not in [doubled[row] for row in own.indices[1]]


def test_alpha_of_scikit_learn_is_lam_over_the_dimensions() -> None:
    """Its squared error is divided by the rows of the problem: the dimensions, not the pool."""
    questions = ["what color is the horse", "how many cars are there"]
    by_alpha = LassoQuestionRanker(TfidfEncoder(size=9, min_count=1), lam=None, alpha=1e-2)
    found = by_alpha.rank(questions, POOL, 4, [[], []])
    encoder = TfidfEncoder(size=9, min_count=1).fit(POOL)
    pool, own = encoder.encode(POOL), encoder.encode(questions)
    assert pool.shape[1] != len(POOL)
    for row in range(2):
        model = Lasso(alpha=1e-2, positive=True, fit_intercept=False, tol=1e-8, max_iter=10**6)
        weights = model.fit(pool.T, own[row]).coef_
        number = min(4, int((weights > 1e-6).sum()))
        assert found.scores[row][:number] == pytest.approx(
            np.sort(weights)[::-1][:number], abs=1e-4
        )
