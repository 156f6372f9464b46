"""The duality gap: the best of many multiples of the direction, and limit cases."""

import numpy as np
import pytest
import torch

from ivqa.lasso.certificate import relative_gaps, reported_gaps

EPS = 2.0**-52  # the rounding of float64


@pytest.mark.parametrize("lam", [0.05, 3.0])
def test_the_gap_is_that_of_the_best_multiple_of_the_direction(lam: float) -> None:
    """Computes primal and dual of eight problems with plain floats, one multiple at a time."""
    rng = np.random.default_rng(4)
    target, x = rng.normal(size=(8, 5)), rng.random((8, 12)) * (rng.random((8, 12)) < 0.3)
    columns = rng.normal(size=(12, 5))
    residual = target - x @ columns
    direction = residual + 0.1 * rng.normal(size=(8, 5))
    largest = (direction @ columns.T).max(axis=1)
    norms = x.sum(axis=1)
    given = [torch.from_numpy(one) for one in (target, residual, norms, direction, largest)]
    gaps = relative_gaps(*given, lam)
    assert gaps.dtype == torch.float64
    inside = 0
    for row in range(8):
        primal = sum(value**2 for value in residual[row]) / 2 + lam * norms[row]
        top = lam / largest[row]  # with more, a column's correlation exceeds lam
        duals = []
        for scale in np.linspace(0, top, 4001):
            z = scale * direction[row]
            duals.append(target[row] @ z - z @ z / 2)
        inside += int(np.argmax(duals) < 4000)
        assert float(gaps[row]) == pytest.approx((primal - max(duals)) / primal, abs=1e-5)
    assert (inside, lam) in [(0, 0.05), (7, 3.0)]


def _gap(target: float, residual: float, norm: float, direction: float, largest: float) -> float:
    """The gap of one problem in one dimension at lam = 0.5."""
    rows = [torch.tensor([[value]]).double() for value in (target, residual, direction)]
    sums = [torch.tensor([value]).double() for value in (norm, largest)]
    return float(relative_gaps(rows[0], rows[1], sums[0], rows[2], sums[1], 0.5))


def test_an_exact_solution_has_the_gap_of_float64() -> None:
    # a = 1, b = 2: x = 1.5, r = 0.5, primal 0.125 + 0.75, dual 2 * 0.5 - 0.125.
    assert _gap(2, 0.5, 1.5, 0.5, 0.5) == EPS


def test_the_gap_where_no_column_correlates() -> None:
    """Then x = 0 is the solution, any multiple s up to 1e6 is allowed, and s = 1 is the best."""
    assert _gap(2, 2, 0, 2, -3) == EPS
    assert _gap(2, 2, 0, 2, 0) == EPS
    # s = 1e6 of the direction 1e-6 is the point 1: dual 2 - 0.5 of the primal 2.
    assert _gap(2, 2, 0, 1e-6, 0) == pytest.approx(1 - 1.5 / 2)


def test_the_gap_of_useless_directions_and_of_a_zero_target() -> None:
    """A zero direction, or one away from the target, gives the trivial bound 0."""
    assert _gap(2, 0.5, 1.5, 0, 0) == 1
    assert _gap(2, 0.5, 1.5, -0.5, 0.5) == 1
    assert _gap(0, 0, 0, 0, 0) == EPS


def test_reported_gaps_are_bounds_that_rounding_does_not_change() -> None:
    generator = np.random.default_rng(0)
    for tolerance in (1e-6, 3e-7, 1.7e-3):
        gaps = 10 ** generator.uniform(-16, 0, 1000)
        reported = reported_gaps(gaps, tolerance)
        assert (reported >= gaps * (1 - 1e-15)).all()
        assert (reported - gaps <= 1.0001e-4 * tolerance).all()
        # The same ranking on another processor: no certificate is lost, and nothing differs.
        small = gaps[gaps < 1e-5 * tolerance]
        np.testing.assert_array_equal(reported_gaps(small + 2e-16, tolerance), 1e-4 * tolerance)
        limits = np.array([tolerance, np.nextafter(tolerance, 0), np.nextafter(tolerance, 1)])
        assert (reported_gaps(limits, tolerance) <= tolerance).tolist() == [True, True, False]
    assert np.isinf(reported_gaps(np.array([np.inf]), 1e-6)).all()
