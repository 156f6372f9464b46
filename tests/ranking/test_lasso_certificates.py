"""LASSO rankings of pools of every kind are certified, by a certificate that the tests compute."""

import numpy as np
import pytest
from lasso_pools import KINDS, clustered, objective_and_bound, solutions, unit

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


@pytest.mark.parametrize("path", ["as needed", "full basis"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("lam", [1e-8, 1e-6, 1e-3, 0.5])
@pytest.mark.parametrize("size", [16, 48])
@pytest.mark.parametrize("kind", KINDS)
def test_solutions_are_optimal(
    kind: str, size: int, lam: float, mode: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "full basis":
        monkeypatch.setattr(LassoRanker, "_is_stuck", lambda self, question: True)
    _assert_optimal(kind, size, lam, mode, monkeypatch)
