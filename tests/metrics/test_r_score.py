import math

import numpy as np
import pytest

from ivqa.errors import UserError
from ivqa.metrics import PUBLISHED_R_SCORE, RScore, r_score

# Clean and partition-1 accuracy in percent, and R_score, as published (GBQD, then YNBQD).
PUBLISHED = [
    (58.02, 44.47, 0.19),
    (60.48, 54.63, 0.48),
    (61.81, 55.22, 0.45),
    (60.16, 49.96, 0.30),
    (65.98, 56.85, 0.34),
    (65.79, 57.12, 0.36),
    (58.02, 40.91, 0.08),
    (60.48, 54.49, 0.48),
    (61.81, 56.90, 0.53),
    (60.16, 49.96, 0.30),
    (65.98, 53.79, 0.23),
    (65.79, 57.33, 0.37),
]


@pytest.mark.parametrize(("clean", "noisy", "expected"), PUBLISHED)
def test_published_values(clean: float, noisy: float, expected: float) -> None:
    assert round(r_score(clean / 100, noisy / 100), 2) == expected


def test_bounds_symmetry_and_monotony() -> None:
    assert r_score(0.5, 0.5) == r_score(0.5, 0.4995) == 1
    assert r_score(0.5, 0.3) == r_score(0.9, 0.1) == 0
    assert r_score(0.5, 0.6) == pytest.approx(r_score(0.6, 0.5))  # a gain counts like a loss
    scores = r_score(0.7, 0.7 - np.linspace(0, 0.3, 50))
    assert (np.diff(scores) <= 0).all()
    assert (np.diff(scores[(scores > 0) & (scores < 1)]) < 0).all()


def test_arrays_broadcast() -> None:
    clean, noisy = np.array([[0.5], [0.6]]), np.array([0.45, 0.5, 0.6])
    scores = r_score(clean, noisy)
    assert scores.shape == (2, 3)
    assert scores[1, 1] == r_score(0.6, 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((58.0, 44.0), "clean accuracy 58 is over 1: percent was passed"),
        ((0.5, [0.4, 44]), "noisy accuracy 44 is over 1: percent was passed"),
        ((0.5, -0.1), r"noisy accuracy -0\.1 is below 0"),
        ((float("nan"), 0.1), "clean accuracy is NaN"),
        ((0.5, 0.4, 0.2, 0.2), "0 <= t < m <= 1, not t=0.2 and m=0.2"),
        ((0.5, 0.4, -0.1, 0.2), "0 <= t < m <= 1"),
    ],
)
def test_wrong_input_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        r_score(*arguments)


def test_tolerance_and_limit_are_t_and_m_of_the_equation() -> None:
    scores = RScore(tolerance=0.01, limit=0.49)
    expected = (math.sqrt(0.49) - math.sqrt(0.16)) / (math.sqrt(0.49) - math.sqrt(0.01))
    assert scores(0.8, 0.64) == pytest.approx(expected)  # (0.7 - 0.4) / (0.7 - 0.1) = 1 / 2
    assert scores(0.8, 0.79) == 1
    assert scores(0.8, 0.31) == 0
    np.testing.assert_allclose(scores([0.8, 0.5], 0.64), [0.5, r_score(0.5, 0.64, 0.01, 0.49)])
    assert PUBLISHED_R_SCORE(0.6579, 0.5712) == r_score(0.6579, 0.5712)


@pytest.mark.parametrize(("tolerance", "limit"), [(0.2, 0.2), (0.3, 0.2), (-0.1, 0.2), (0.1, 1.1)])
def test_a_tolerance_that_is_not_below_the_limit_is_refused(tolerance: float, limit: float) -> None:
    with pytest.raises(UserError, match=rf"^tolerance={tolerance} and limit={limit} must satisfy"):
        RScore(tolerance=tolerance, limit=limit)


def test_losses_only_ignores_gains() -> None:
    """clean 0.6; a gain of 0.05 costs nothing, a loss of 0.05 costs what it always does."""
    losses, both = RScore(losses_only=True), RScore()
    assert losses(0.6, 0.65) == 1.0
    assert both(0.6, 0.65) == pytest.approx(both(0.6, 0.55))
    assert both(0.6, 0.55) < 1
    assert losses(0.6, 0.55) == both(0.6, 0.55)
    np.testing.assert_allclose(losses(0.6, [0.65, 0.55]), [1.0, both(0.6, 0.55)])
