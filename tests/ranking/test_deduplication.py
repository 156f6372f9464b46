import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.linear_model import Lasso

from ivqa.encoders.tfidf import TfidfEncoder
from ivqa.ranking import CosineRanker, LassoQuestionRanker, deduplication
from ivqa.ranking.deduplication import near_duplicates
from ivqa.ranking.question_rankers import QuestionRanker

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


def test_a_cosine_just_over_the_threshold_is_over_it() -> None:
    """The projection rounds less than the margin that it leaves."""
    for size in (2, 100):
        for cosine, groups in ((0.90005, [0, 0, 2]), (0.89995, [0, 1, 2])):
            vectors = np.zeros((3, size), dtype=np.float32)
            vectors[:2, 0] = 1, cosine
            vectors[1:, 1] = (1 - cosine**2) ** 0.5, -1
            assert near_duplicates(vectors, 0.9).tolist() == groups
    equal = np.array([[1, 0], [0.5, 0.75**0.5]], dtype=np.float32)
    assert near_duplicates(equal, 0.5).tolist() == [0, 1]


@pytest.mark.parametrize(("size", "axes"), [(8, 8), (200, 64)])
def test_the_projection_leaves_few_pairs_to_compare(
    size: int, axes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those whose cosine, on the principal axes, can exceed the threshold."""
    monkeypatch.setattr(deduplication, "_BLOCK", 64)
    monkeypatch.setattr(deduplication, "_SAMPLE", 100)  # of 500 rows, every fifth
    vectors = _clusters(500, size, 0.05)
    own, compared = deduplication._cosines, []

    def cosines(rows: NDArray[np.float32], *pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        compared.extend(zip(*(side.tolist() for side in pairs), strict=True))
        return own(rows, *pairs)

    monkeypatch.setattr(deduplication, "_cosines", cosines)
    near_duplicates(vectors, 0.9)
    found = PCA(axes, svd_solver="full").fit(np.concatenate([vectors[::5], -vectors[::5]]))
    projected = vectors.astype(float) @ found.components_.T
    cosines_at_most = np.tril(1 - cdist(projected, projected) ** 2 / 2, -1)
    over, nearly = (
        set(map(tuple, np.argwhere(cosines_at_most > bound).tolist()))
        for bound in (0.9, 0.9 - 2e-4)
    )
    assert over <= set(compared) <= nearly
    assert len(set(compared)) == len(compared) < 500 * 499 / 2 / 4


def test_memory_maps_empty_pools_and_thresholds(tmp_path: object) -> None:
    vectors = _clusters(200, 80, 0.05)
    np.save(f"{tmp_path}/pool.npy", vectors)
    mapped = np.load(f"{tmp_path}/pool.npy", mmap_mode="r")
    assert np.array_equal(near_duplicates(mapped, 0.98), near_duplicates(vectors, 0.98))
    assert near_duplicates(vectors[:0], 0.98).shape == (0,)
    for threshold in (0, 1, 1.5):
        with pytest.raises(ValueError, match=rf"must be in \(0, 1\), not {threshold}"):
            near_duplicates(vectors, threshold)


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
