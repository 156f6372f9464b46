"""Pearson, Spearman and Kendall correlation, with bootstrap intervals."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ivqa.metrics.bootstrap import interval

Floats = NDArray[np.float64]
_MAX_WEIGHTS = 10_000_000  # weights in memory at once
# A variance below this share of the mean square is rounding: all values are equal.
_ROUNDING = 1e-12


def correlation(coefficient: str, x: ArrayLike, y: ArrayLike) -> float:
    """Computes a correlation coefficient.

    Args:
        coefficient: "pearson" (linear relation), "spearman" (Pearson's r of the ranks, where equal
            values share their mean rank) or "kendall" (tau-b).
        x: (N,) values.
        y: (N,) values.

    Returns:
        The coefficient in [-1, 1]; NaN if all values of x or of y are equal.

    Raises:
        ValueError: The lengths differ, or the coefficient is unknown.

    Example:
        >>> [round(correlation(name, [1, 2, 3], [1, 2, 9]), 3) for name in COEFFICIENTS]
        [0.918, 1.0, 1.0]
    """
    first, second = _pair(x, y)
    return float(_function(coefficient)(first, second, np.ones((1, len(first))))[0])


def correlation_interval(
    coefficient: str,
    x: ArrayLike,
    y: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> Floats:
    """Computes a 95 percent bootstrap interval of `correlation` (percentiles, Efron 1979).

    Coefficient, values and errors are those of `correlation`.

    Args:
        clusters: (N,): pairs of values of the same cluster, such as questions about one image, are
            drawn together, because they are not independent. None: each pair alone.

    Returns:
        (2,) float64: lower and upper bound, without the resamples in which all values of x or of y
        are equal; NaN if there is no other.
    """
    first, second = _pair(x, y)
    names, owner = np.unique(
        np.arange(len(first)) if clusters is None else np.asarray(clusters), return_inverse=True
    )
    rng = np.random.default_rng(seed)
    per_pass = max(1, _MAX_WEIGHTS // max(len(first), 1))
    found = []
    for start in range(0, resamples, per_pass):
        drawn = rng.integers(0, len(names), (min(per_pass, resamples - start), len(names)))
        counts = np.stack([np.bincount(row, minlength=len(names)) for row in drawn])
        # A pair that is drawn twice has weight 2: no resample is sorted or copied.
        found.append(_function(coefficient)(first, second, counts[:, owner].astype(np.float64)))
    values = np.concatenate(found)
    values = values[np.isfinite(values)]
    return interval(values) if len(values) else np.full(2, np.nan)


def _pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Pearson's r under each row of (R, N) weights; x and y are (N,) or (R, N)."""
    total = weights.sum(axis=-1)

    def mean(values: Floats) -> Floats:
        return np.asarray((weights * values).sum(axis=-1) / total)

    # Around 0 the differences of squares are accurate.
    x, y = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    mean_x, mean_y, square_x, square_y = mean(x), mean(y), mean(x**2), mean(y**2)
    variance_x, variance_y = square_x - mean_x**2, square_y - mean_y**2
    varied = (variance_x > _ROUNDING * square_x) & (variance_y > _ROUNDING * square_y)
    return _ratio(mean(x * y) - mean_x * mean_y, variance_x * variance_y, varied)


def _spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Spearman's rho under each row of (R, N) weights."""
    return _pearson(_ranks(x, weights), _ranks(y, weights), weights)


def _ranks(values: Floats, weights: Floats) -> Floats:
    """(R, N): the ranks of (N,) values of which each occurs as often as its weight says."""
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    starts = np.flatnonzero(np.r_[True, ascending[1:] != ascending[:-1]])
    # Number of the group of equal values that each value belongs to.
    group = np.empty(len(values), dtype=np.int64)
    group[order] = np.cumsum(np.r_[False, ascending[1:] != ascending[:-1]])
    sizes = np.add.reduceat(weights[:, order], starts, axis=1)  # (R, groups)
    # Equal values share the mean of their ranks.
    ranks = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
    return np.asarray(ranks[:, group])


def _kendall(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Kendall's tau-b under each row of (R, N) weights, in O(R N^2)."""
    sign_x, sign_y = (np.sign(values[:, None] - values[None]) for values in (x, y))  # (N, N)

    def summed(signs: Floats) -> Floats:
        return np.asarray(((weights @ signs) * weights).sum(axis=-1))

    untied_x, untied_y = summed(sign_x**2), summed(sign_y**2)
    return _ratio(summed(sign_x * sign_y), untied_x * untied_y, (untied_x > 0) & (untied_y > 0))


def _ratio(numerator: Floats, square: Floats, valid: NDArray[np.bool_]) -> Floats:
    """Numerator / sqrt(square), in [-1, 1] in spite of rounding; NaN where not valid."""
    found = np.full_like(numerator, np.nan)
    np.divide(numerator, np.sqrt(np.where(valid, square, 1.0)), out=found, where=valid)
    return np.clip(found, -1.0, 1.0)


COEFFICIENTS: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "pearson": _pearson,
    "spearman": _spearman,
    "kendall": _kendall,
}


def _function(coefficient: str) -> Callable[[Floats, Floats, Floats], Floats]:
    if coefficient not in COEFFICIENTS:
        raise ValueError(f"'{coefficient}' is not one of {', '.join(COEFFICIENTS)}")
    return COEFFICIENTS[coefficient]


def _pair(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise ValueError(
            f"two lists of the same length are needed, not {first.shape}, {second.shape}"
        )
    return first, second
