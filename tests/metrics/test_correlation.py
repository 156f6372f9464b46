"""Correlations against scipy, by hand, and their bootstrap intervals by brute force."""

import numpy as np
import pytest
import scipy.stats

from ivqa.metrics import COEFFICIENTS, correlation, correlation_interval

SCIPY = {
    "pearson": scipy.stats.pearsonr,
    "spearman": scipy.stats.spearmanr,
    "kendall": scipy.stats.kendalltau,
}


def _values(seed: int, size: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Values with many ties, related to each other."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, size).astype(float)
    return x, x**2 + rng.integers(-8, 9, size)


@pytest.mark.parametrize("name", SCIPY)
@pytest.mark.parametrize("seed", range(4))
def test_scipy_finds_the_same(name: str, seed: int) -> None:
    x, y = _values(seed)
    assert correlation(name, x, y) == pytest.approx(SCIPY[name](x, y).statistic, abs=1e-12)
    assert correlation(name, x, -y) == pytest.approx(-correlation(name, x, y), abs=1e-12)


def test_four_values_by_hand() -> None:
    x, y = [1, 2, 2, 5], [1, 4, 2, 3]
    # Deviations -1.5, -.5, -.5, 2.5 and -1.5, 1.5, -.5, .5.
    assert correlation("pearson", x, y) == pytest.approx(3 / np.sqrt(9 * 5))
    # Ranks 1, 2.5, 2.5, 4 and 1, 4, 2, 3: deviations -1.5, 0, 0, 1.5 and -1.5, 1.5, -.5, .5.
    assert correlation("spearman", x, y) == pytest.approx(3 / np.sqrt(4.5 * 5))
    # Of 6 pairs 4 agree (the first with all others, the third with the fourth), and 1 disagrees;
    # x has one tie.
    assert correlation("kendall", x, y) == pytest.approx((4 - 1) / np.sqrt(5 * 6))


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_each_resample_is_that_of_scipy(name: str) -> None:
    """The same draws as pairs that are copied, where the function uses weights."""
    x, y = _values(1, size=12)
    drawn = np.random.default_rng(5).integers(0, 12, (300, 12))
    expected = [SCIPY[name](x[rows], y[rows]).statistic for rows in drawn]
    found = correlation_interval(name, x, y, resamples=300, seed=5)
    assert found == pytest.approx(np.quantile(expected, [0.025, 0.975]), abs=1e-9)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_values_of_a_cluster_are_drawn_together(name: str) -> None:
    x, y = _values(2, size=25)
    copied = np.repeat(x, 3), np.repeat(y, 3), np.repeat(np.arange(25), 3)
    alone = correlation_interval(name, x, y)
    # Kendall's tau-b and the others do not change if all values are copied equally often.
    assert correlation_interval(name, *copied) == pytest.approx(alone, abs=1e-9)
    assert np.ptp(correlation_interval(name, *copied[:2])) < 0.8 * np.ptp(alone)


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_constant_values_have_no_correlation(name: str) -> None:
    assert np.isnan(correlation(name, [0.1, 0.1, 0.1], [1, 2, 3]))
    assert np.isnan(correlation_interval(name, [0.1, 0.1, 0.1], [1, 2, 3])).all()
    # Resamples that draw one pair only are left out.
    assert correlation_interval(name, [1, 2], [1, 2]) == pytest.approx([1, 1])


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="same length"):
        correlation("pearson", [1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="'tau' is not one of pearson, spearman, kendall"):
        correlation("tau", [1, 2], [1, 2])
