"""Solutions inside a working set meet the optimality conditions from any start."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ivqa.lasso.active_set import invert_gram, solve_active_set
from ivqa.lasso.column_products import add_violating_columns, extend_gram


class _Problem:
    """Columns with a common part, as sentence embeddings have, and the solver's state."""

    def __init__(self, size: int, rows: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        columns = rng.normal(size=(rows, size)) + rng.normal(size=(rows, 1))
        columns /= np.linalg.norm(columns, axis=0)
        self.gram = columns.T @ columns
        self.correlations = columns.T @ (columns[:, :3].sum(axis=1) + rng.normal(size=rows))
        self.begin(size)

    def begin(self, size: int) -> None:
        self.x, self.inside = np.zeros(size), np.empty(size, np.int64)
        self.inverse, self.size = np.empty((size, size)), 0

    def solve(self, lam: float, positive: bool) -> NDArray[np.float64]:
        gradient = self.correlations - self.gram @ self.x
        self.size = solve_active_set(
            self.gram, gradient, lam, positive, self.x, self.inside, self.inverse, self.size
        )
        np.testing.assert_allclose(gradient, self.correlations - self.gram @ self.x, atol=1e-12)
        return self.x

    def assert_optimal(self, lam: float, positive: bool) -> None:
        gradient = self.correlations - self.gram @ self.x
        key = gradient if positive else np.abs(gradient)
        assert key.max() <= lam * (1 + 1e-6) + 1e-13
        inside = self.inside[: self.size]
        assert sorted(inside) == np.flatnonzero(self.x).tolist()
        np.testing.assert_allclose(gradient[inside], lam * np.sign(self.x[inside]), atol=1e-12)
        assert not positive or (self.x >= 0).all()


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("lam", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("rows", [12, 60])  # fewer and more than the 40 variables
@pytest.mark.parametrize("seed", range(3))
def test_solutions_are_optimal(positive: bool, lam: float, rows: int, seed: int) -> None:
    problem = _Problem(40, rows, seed)
    problem.solve(lam, positive)
    problem.assert_optimal(lam, positive)


def test_equal_columns_have_the_weight_of_one() -> None:
    once = _Problem(20, 30, 1)
    twice = _Problem(20, 30, 1)
    order = np.repeat(np.arange(20), 2)
    twice.gram = twice.gram[np.ix_(order, order)].copy()
    twice.correlations = twice.correlations[order]
    twice.begin(40)
    assert (twice.correlations - twice.gram @ twice.solve(1e-6, True)).max() <= 1e-6 * (1 + 1e-5)
    expected = once.solve(1e-6, True)
    np.testing.assert_allclose(twice.x.reshape(20, 2).sum(axis=1), expected, atol=1e-9)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("before", [0.5, 1e-3, 1e-6])  # another lam, or the same
def test_a_warm_start_gives_the_same_solution(positive: bool, before: float) -> None:
    warm, cold = _Problem(30, 50, 2), _Problem(30, 50, 2)
    warm.solve(before, positive)
    np.testing.assert_allclose(warm.solve(1e-3, positive), cold.solve(1e-3, positive), atol=1e-10)
    warm.assert_optimal(1e-3, positive)


def test_the_inverse_is_right_after_columns_enter_and_leave() -> None:
    problem = _Problem(40, 60, 3)
    for lam in (0.3, 1e-3, 0.1, 1e-6, 0.2):  # some enter, some leave
        problem.solve(lam, positive=False)
        inside, size = problem.inside[: problem.size], problem.size
        block = problem.gram[np.ix_(inside, inside)]
        np.testing.assert_allclose(problem.inverse[:size, :size] @ block, np.eye(size), atol=1e-9)


def test_inverting_leaves_out_dependent_columns() -> None:
    problem = _Problem(12, 30, 4)
    order = np.array([0, 1, 0, 2])
    gram, inverse = problem.gram[np.ix_(order, order)].copy(), np.empty((4, 4))
    invert_gram(gram, np.arange(4), inverse)
    assert (inverse[2] == 0).all()
    kept = [0, 1, 3]
    expected = np.linalg.inv(gram[np.ix_(kept, kept)])
    np.testing.assert_allclose(inverse[np.ix_(kept, kept)], expected, atol=1e-9)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_the_worst_violations_join_with_exact_gradients(known: bool, positive: bool) -> None:
    rng = np.random.default_rng(5)
    pool, residual = rng.normal(size=(40, 9)).astype(np.float32), rng.normal(size=9)
    rows, columns = rng.permutation(40)[:30], np.full((30, 9), np.nan, np.float32)
    count = 7
    columns[:count] = pool[rows[:count]]
    exact, x = pool @ residual, np.zeros(30)
    x[:3] = 1, -2, 3
    gradient, promise = np.full(30, np.nan), rng.normal(size=40)
    if known:
        gradient[count:] = promise[rows[count:]]
    key = promise if known else exact if positive else np.abs(exact)
    key = key if positive else np.abs(key)
    wanted = sorted(rows[count:].tolist(), key=lambda row: -key[row])[:6]
    found, largest, fault = add_violating_columns(
        pool, columns, rows, residual, gradient, x, 0.1, positive, 0, count, 6, known
    )
    assert found == count + 6
    assert rows[count:found].tolist() == wanted
    np.testing.assert_array_equal(columns[:found], pool[rows[:found]])
    np.testing.assert_allclose(gradient[:found], exact[rows[:found]], rtol=1e-6)
    others = promise if known else exact
    np.testing.assert_allclose(gradient[found:], others[rows[found:]], rtol=1e-6)
    inside = exact[rows[:count]] if positive else np.abs(exact[rows[:count]])
    assert largest == pytest.approx(max(inside.max(), key[wanted[0]]), rel=1e-6)
    faults = np.abs(exact[rows[:3]] - 0.1 * np.sign(x[:3])), inside[3:] - 0.1
    assert fault == pytest.approx(np.concatenate(faults).max() / 0.1, rel=1e-6)


def test_a_gram_matrix_is_extended_by_columns() -> None:
    columns = np.random.default_rng(6).normal(size=(9, 20)).astype(np.float32)
    products, gram = columns @ columns.T, np.full((12, 12), np.nan)
    for first, count in ((0, 4), (4, 9)):
        extend_gram(gram, products[:count, first:count], first, 1e-3)
    np.testing.assert_allclose(gram[:9, :9], products + 1e-3 * np.diag(np.diag(products)))
    assert np.isnan(gram[9:]).all()
    assert np.isnan(gram[:, 9:]).all()
