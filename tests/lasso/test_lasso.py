from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from ivqa.lasso import SolverSettings, pool_products, solver
from ivqa.lasso import screening as screening_module
from ivqa.lasso.pool_products import PoolProducts
from ivqa.ranking import LassoRanker


def _unit(rows: int, size: int, seed: int) -> NDArray[np.float32]:
    """Unit vectors with a common part, as sentence embeddings have."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(rows, size)) + 0.5 * rng.normal(size=size)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _primal_dual_gap(
    pool: NDArray, vector: NDArray, x: NDArray, lam: float, positive: bool
) -> float:
    """The relative gap over the whole pool, computed from the definition in float64."""
    columns = pool.astype(np.float64).T
    residual = vector.astype(np.float64) - columns @ x
    correlations = columns.T @ residual
    largest = correlations.max() if positive else np.abs(correlations).max()
    square, along = residual @ residual, vector.astype(np.float64) @ residual
    scale = min(along / square, lam / largest)
    primal = 0.5 * square + lam * np.abs(x).sum()
    return (primal - (scale * along - 0.5 * scale**2 * square)) / primal


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("lam", [1e-6, 1e-2])
@pytest.mark.parametrize("columns_per_pass", [8, 96])
def test_solutions_are_certified_over_the_whole_pool(
    positive: bool, lam: float, columns_per_pass: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, vectors = _unit(600, 24, 0), _unit(40, 24, 1)
    monkeypatch.setattr(screening_module, "_MIN_COLUMNS_PER_PASS", columns_per_pass)
    ranker = LassoRanker(pool, lam, positive, settings=SolverSettings(batch_size=16))
    found = ranker.rank(vectors, k=600)
    assert (found.gap <= 1e-6).all()
    for row in range(40):
        x = np.zeros(600)
        x[found.indices[row]] = found.scores[row]
        if positive:
            # Scores are float32, so their gap is a little larger than that of x.
            assert _primal_dual_gap(pool, vectors[row], x, lam, True) < 1e-3
            assert found.support[row] == (x > 0).sum()


def test_without_a_penalty_it_is_non_negative_least_squares() -> None:
    pool, vectors = _unit(50, 80, 2), _unit(10, 80, 3)
    found = LassoRanker(pool, 1e-9).rank(vectors, k=50)
    for row in range(10):
        x = np.zeros(50)
        x[found.indices[row]] = found.scores[row]
        expected = lsq_linear(pool.T.astype(float), vectors[row], (0, np.inf), tol=1e-13).x
        np.testing.assert_allclose(x, expected, atol=1e-5)


def test_a_main_question_in_the_pool_takes_all_the_weight_unless_excluded() -> None:
    pool = _unit(300, 32, 4)
    ranker = LassoRanker(pool)
    own = ranker.rank(pool[:5], k=3)
    assert own.indices[:, 0].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(own.scores[:, 0], 1, atol=1e-4)
    other = ranker.rank(pool[:5], k=21, exclude=[[row] for row in range(5)])
    assert not (other.indices == np.arange(5)[:, None]).any()
    assert (other.gap <= 1e-6).all()


def test_scores_fall_and_rows_behind_the_support_follow_by_correlation() -> None:
    pool, vectors = _unit(400, 16, 5), _unit(12, 16, 6)
    found = LassoRanker(pool, 0.3).rank(vectors, k=30)
    assert (np.diff(found.scores, axis=1) <= 0).all()
    assert (found.support < 30).any()
    for row in range(12):
        support, order = found.support[row], found.indices[row]
        assert len(set(order.tolist())) == 30
        assert (found.scores[row, support:] == 0).all()
        x = np.zeros(400)
        x[order] = found.scores[row]
        correlations = pool @ (vectors[row] - pool.T @ x)
        assert (np.diff(correlations[order[support:]]) < 1e-5).all()


@pytest.mark.parametrize("screening", [torch.float32, torch.bfloat16])
def test_batches_chunks_and_memory_maps_change_nothing(
    screening: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, vectors = _unit(500, 20, 7), _unit(30, 20, 8)
    np.save(tmp_path / "pool.npy", pool)
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    whole = LassoRanker(pool, settings=SolverSettings(screening=torch.float32)).rank(vectors)
    monkeypatch.setattr(pool_products, "_CHUNK_BYTES", 37 * 2 * 20)  # 37 rows in bfloat16
    monkeypatch.setattr(pool_products, "_PRODUCT_BYTES", 30 * 4 * 7)
    small_batches = SolverSettings(screening=screening, batch_size=7, progress=True)
    parts = LassoRanker(mapped, settings=small_batches).rank(vectors)
    np.testing.assert_array_equal(whole.indices, parts.indices)
    np.testing.assert_allclose(whole.scores, parts.scores, atol=1e-6)
    assert (parts.gap <= 1e-6).all()


@pytest.mark.parametrize("screening", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("copies", [2, 80])
def test_equal_columns_are_certified_and_chosen_alike(copies: int, screening: torch.dtype) -> None:
    pool = _unit(100, 16, 9)
    # With 80 copies of each, more columns tie with those chosen than a pass lists.
    settings = SolverSettings(screening=screening)
    ranker = LassoRanker(np.tile(pool, (copies, 1)), settings=settings)
    first, again = (ranker.rank(_unit(8, 16, 10), k=5) for _ in range(2))
    assert (first.gap <= 1e-6).all()
    # Which of the copies is chosen does not depend on the thread that finds it.
    np.testing.assert_array_equal(first.indices, again.indices)


@pytest.mark.parametrize("copies", [1, 600])
def test_certificates_hold_with_bfloat16_products(
    copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = 1e-4 * np.random.default_rng(24).normal(size=(3000, 64))
    pool = (np.tile(_unit(3000 // copies, 64, 22), (copies, 1)) + noise).astype(np.float32)
    vectors, formats = _unit(12, 64, 23), set[torch.dtype]()
    multiply = PoolProducts.multiply

    def watched(self: PoolProducts, vectors: torch.Tensor, *range_: int) -> torch.Tensor:
        formats.add(vectors.dtype)
        return multiply(self, vectors, *range_)

    monkeypatch.setattr(PoolProducts, "multiply", watched)
    rough = LassoRanker(pool, settings=SolverSettings(screening=torch.bfloat16)).rank(vectors, k=2)
    # With 600 near copies more correlations are undecided than can be computed one by one.
    assert formats == {torch.bfloat16} | ({torch.float32} if copies > 1 else set())
    in_float32 = SolverSettings(screening=torch.float32)
    everything = LassoRanker(pool, settings=in_float32).rank(vectors, k=3000)
    np.testing.assert_allclose(rough.scores, everything.scores[:, :2], atol=1e-6)
    assert (rough.gap <= 1e-6).all()


@pytest.mark.parametrize(
    ("positive", "noise"),
    [(True, 0), (True, 1e-4), (False, 0), (False, 1e-3)],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_columns_that_nearly_depend_on_each_other(
    positive: bool, noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(20)
    pool = _unit(600, 12, 21) @ np.linalg.qr(rng.normal(size=(400, 12)))[0].T
    pool = (pool + noise * rng.normal(size=pool.shape)).astype(np.float32)
    # With far fewer columns than dimensions Gram matrices start in float32.
    monkeypatch.setattr(screening_module, "_MIN_COLUMNS_PER_PASS", 24)
    found = LassoRanker(pool, positive=positive).rank(_unit(8, 400, 22))
    assert np.isfinite(found.scores).all()
    assert ((found.gap > 0) & (found.gap <= 1)).all()
    assert found.uncertified == 0 == (found.gap > 1e-6).sum()


def test_what_rounding_hides_is_reported_and_not_certified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(20)
    pool = _unit(600, 12, 21) @ np.linalg.qr(rng.normal(size=(400, 12)))[0].T
    pool = (pool + 1e-6 * rng.normal(size=pool.shape)).astype(np.float32)
    monkeypatch.setattr(solver, "_MAX_FAILURES", 2)
    with pytest.warns(UserWarning, match="8 of 8 rankings are uncertified.* their order may be"):
        found = LassoRanker(pool).rank(_unit(8, 400, 22))
    assert ((found.gap > 1e-6) & (found.gap <= 1)).all()
    assert np.isfinite(found.scores).all()


def test_equal_main_questions_have_equal_rankings() -> None:
    pool, vectors = _unit(300, 16, 13), _unit(3, 16, 14)
    found = LassoRanker(pool).rank(vectors[[0, 1, 0, 2, 0]])
    np.testing.assert_array_equal(found.indices[0], found.indices[2])
    np.testing.assert_allclose(found.scores[0], found.scores[4], atol=1e-6)


@pytest.mark.parametrize("positive", [True, False])
def test_zero_vectors_score_zero(positive: bool) -> None:
    pool, vectors = _unit(200, 16, 15), _unit(4, 16, 16)
    pool[::2] = 0
    vectors[1] = 0
    found = LassoRanker(pool, positive=positive).rank(vectors, k=30)
    assert (found.scores[found.indices % 2 == 0] == 0).all()
    assert (found.gap <= 1e-6).all()
    assert found.support[1] == 0
    assert (found.scores[1] == 0).all()
    assert len(set(found.indices[1].tolist())) == 30


def test_vectors_of_any_length_are_certified() -> None:
    pool = _unit(300, 24, 17) * np.linspace(0.1, 30, 300, dtype=np.float32)[:, None]
    vectors = 5 * _unit(6, 24, 18)
    found = LassoRanker(pool, 1e-3).rank(vectors, k=300)
    for row in range(6):
        x = np.zeros(300)
        x[found.indices[row]] = found.scores[row]
        assert _primal_dual_gap(pool, vectors[row], x, 1e-3, True) < 1e-3
        assert found.gap[row] <= 1e-6


def test_nothing_to_rank_is_an_empty_ranking() -> None:
    found = LassoRanker(_unit(30, 8, 19)).rank(np.zeros((0, 8), np.float32), k=5)
    assert found.indices.shape == found.scores.shape == (0, 5)


def test_the_published_setting_equals_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    pool, vectors = _unit(200, 48, 11), _unit(6, 48, 12)
    alpha = 1e-3
    ranker = LassoRanker(pool, 48 * alpha, positive=False, intercept=True)
    found = ranker.rank(vectors, k=10)
    assert (found.gap <= 1e-6).all()
    for row in range(6):
        model = linear_model.Lasso(alpha, tol=1e-10, max_iter=100_000)
        model.fit(pool.T.astype(np.float64), vectors[row].astype(np.float64))
        positive = min(10, int((model.coef_ > 1e-7).sum()))
        order = np.argsort(-model.coef_)[:positive]
        np.testing.assert_array_equal(found.indices[row, :positive], order)
        np.testing.assert_allclose(found.scores[row, :positive], model.coef_[order], atol=1e-5)


@pytest.mark.parametrize(
    ("pool", "vectors", "k", "exclude", "message"),
    [
        (_unit(9, 4, 0), _unit(2, 5, 0), 3, None, r"must be vectors \(B, 4\) as in the pool"),
        (_unit(9, 4, 0), _unit(2, 4, 0) * np.float32(np.nan), 3, None, "main question 0 has"),
        (_unit(9, 4, 0), _unit(2, 4, 0), 10, None, "k=10 of 9 basic questions"),
        (_unit(9, 4, 0), _unit(2, 4, 0), 9, [[1], []], "k=9 of 9 basic questions, 1 of them"),
        (_unit(9, 4, 0), _unit(2, 4, 0), 3, [[1]], "exclude has 1 entries for 2"),
        (np.zeros((0, 4), np.float32), _unit(2, 4, 0), 3, None, "N >= 1"),
        (_unit(9, 4, 0).astype(float), _unit(2, 4, 0), 3, None, "must be float32, not float64"),
        (_unit(9, 4, 0) / np.float32(0), _unit(2, 4, 0), 3, None, "vector 0 of the pool"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_wrong_input_is_named(
    pool: NDArray, vectors: NDArray, k: int, exclude: list | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LassoRanker(pool).rank(vectors, k, exclude)
