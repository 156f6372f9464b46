"""LASSO rankings of every kind of pool are optimal, by a certificate that the tests compute."""

import numpy as np
import pytest
import torch
from lasso_pools import KINDS, clustered, isotropic, objective_and_bound, solutions, unit

from ivqa.errors import UserError
from ivqa.lasso import screening, solver
from ivqa.lasso.certificate import relative_gaps
from ivqa.ranking import LassoRanker

MODES = {"non-negative": (True, False), "signed": (False, False), "published": (False, True)}


def _assert_optimal(
    kind: str, size: int, lam: float, mode: str, monkeypatch: pytest.MonkeyPatch, rows: int = 500
) -> None:
    positive, intercept = MODES[mode]
    rng = np.random.default_rng([size, int(-np.log10(lam))])
    pool, vectors = KINDS[kind](rows, size, rng), KINDS[kind](2, size, rng)
    vectors = unit(vectors + 0.3 / size**0.5 * rng.normal(size=vectors.shape))
    ranker = LassoRanker(pool, lam, positive, intercept=intercept, on_uncertified="error")
    ranking, found = solutions(ranker, vectors, monkeypatch)
    for row, vector in enumerate(vectors):
        x = found[row]
        objective, bound = objective_and_bound(pool, vector, x, lam, positive, intercept)
        assert objective - bound <= 2e-6 * objective
        assert bound <= objective * (1 + 1e-12)
        assert not positive or (x >= 0).all()
        best = np.sort(x[x > 0])[::-1][:5]
        np.testing.assert_allclose(ranking.scores[row, : len(best)], best, rtol=1e-6)
        np.testing.assert_allclose(x[ranking.indices[row, : len(best)]], best, rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lam", [1e-6, 1e-3, 0.5])
@pytest.mark.parametrize("size", [16, 48])
@pytest.mark.parametrize("kind", KINDS)
def test_solutions_are_optimal(
    kind: str, size: int, lam: float, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _assert_optimal(kind, size, lam, mode, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lam", [1e-6, 1e-3])
@pytest.mark.parametrize("kind", KINDS)
def test_large_solutions_are_optimal(
    kind: str, lam: float, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _assert_optimal(kind, 1024, lam, mode, monkeypatch, rows=3000)


@pytest.mark.parametrize(("noise", "lam"), [
    (0.3, 1e-6), (0.7, 1e-6), (0.7, 1e-3), pytest.param(1.0, 1e-6, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_column_a_dimension(noise: float, lam: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    centres = isotropic(200, 256, rng)
    pool = clustered(20_000, 256, rng, noise, centres)
    vectors = clustered(2, 256, rng, noise, centres)
    ranking, found = solutions(LassoRanker(pool, lam), vectors, monkeypatch, k=21)
    assert ranking.uncertified == 0
    for row, vector in enumerate(vectors):
        # Solves on the same columns with other factors; the solution is optimal if the conditions
        # hold for all other columns.
        inside = np.flatnonzero(found[row])
        a, b = pool.astype(float), vector.astype(float)
        q, r = np.linalg.qr(a[inside].T)
        dual = q @ np.linalg.solve(r.T, np.ones(len(inside)))  # the residual in the span, over lam
        x = np.linalg.solve(r, q.T @ (b - lam * dual))
        outside = (b - q @ (q.T @ b)) if len(inside) < 256 else np.zeros(256)
        assert (x > 0).all()
        assert (a @ (outside / lam + dual)).max() <= 1 + 1e-5
        if lam < 1e-4 and noise >= 0.7:
            assert len(inside) == 256
        np.testing.assert_allclose(found[row][inside], x, rtol=1e-4, atol=1e-7)
        np.testing.assert_array_equal(ranking.indices[row], inside[np.argsort(-x)[:21]])


def test_the_gap_by_hand() -> None:
    # A = I, b = (1, 0.5), lam = 0.25: the minimum is at (0.75, 0.25).
    target = torch.tensor([[1.0, 0.5]]).double().expand(2, 2)
    x = torch.tensor([[0.75, 0.25], [0.75, 0.0]]).double()
    residual = target - x
    gaps = relative_gaps(target, residual, x.sum(dim=1), residual, residual.amax(dim=1), 0.25)
    # At (0.75, 0): primal 0.34375, scale 0.25 / 0.5, dual 0.25 - 0.3125 / 8.
    expected = (0.34375 - (0.25 - 0.3125 / 8)) / 0.34375
    np.testing.assert_allclose(gaps, [0, expected], atol=1e-12)
    flipped = relative_gaps(target, residual, x.sum(dim=1), -residual, residual.amax(dim=1), 0.25)
    np.testing.assert_allclose(flipped, [1, 1])


@pytest.mark.parametrize("rounds", [2, 4])  # before and after it tries to certify
def test_uncertified_rankings_are_counted_and_reported(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    pool, vectors = clustered(2000, 32, rng), clustered(3, 32, rng)
    monkeypatch.setattr(screening, "_MIN_COLUMNS_PER_PASS", 8)
    monkeypatch.setattr(solver, "_MAX_ROUNDS", rounds)
    monkeypatch.setattr(solver, "_CERTIFY_AFTER", 2)
    warning = LassoRanker(pool)
    with pytest.warns(UserWarning, match=r"3 of 3 rankings are uncertified.* main question 0"):
        ranking, found = solutions(warning, vectors, monkeypatch)
    assert ranking.uncertified == 3
    assert not ranking.certified.any()
    strict = LassoRanker(pool, on_uncertified="error")
    with pytest.raises(UserError, match=r"rankings are uncertified.*on_uncertified=warn"):
        strict.rank(vectors)
    monkeypatch.undo()
    _, best = solutions(LassoRanker(pool), vectors, monkeypatch)
    for row, vector in enumerate(vectors):
        primal, _ = objective_and_bound(pool, vector, found[row], 1e-6, True, False)
        least, _ = objective_and_bound(pool, vector, best[row], 1e-6, True, False)
        assert (primal - least) / primal <= ranking.gap[row] <= 1


def test_on_uncertified_is_warn_or_error() -> None:
    with pytest.raises(ValueError, match="on_uncertified must be 'warn' or 'error', not 'never'"):
        LassoRanker(isotropic(9, 4, np.random.default_rng(0)), on_uncertified="never")  # type: ignore[arg-type]
