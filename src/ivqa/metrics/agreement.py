"""Agreement of people who rate the same things: Krippendorff's alpha."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ivqa.metrics.bootstrap import cluster_sums, interval, resampled_means

# A sum of squares below this share of its terms is rounding: all values are equal.
_ROUNDING = 1e-12


def krippendorff_alpha(ratings: ArrayLike) -> float:
    """Computes Krippendorff's alpha for values on an interval scale (Krippendorff 2011).

        alpha = 1 - D_o / D_e
        D_o = 1 / n sum_u 1 / (m_u - 1) sum_{i != j} (x_ui - x_uj)^2
        D_e = 1 / (n (n - 1)) sum over all pairs of the n values of their squared difference

    where m_u is the number of ratings of unit u, and n the number of all ratings of units with at
    least two. 1 is perfect agreement, 0 that of chance; systematic disagreement is below 0.

    Args:
        ratings: (P, N): ratings of N units by P people; NaN where one did not rate a unit.

    Returns:
        alpha, at most 1. NaN if no unit has two ratings, or if all these ratings are equal: then
        nothing shows whether the people tell good from bad.

    Example:
        >>> krippendorff_alpha([[0, 1, 4, 3], [0, 1, 4, 3]])
        1.0
        >>> round(krippendorff_alpha([[0, 1, 4, 3], [1, 1, 4, np.nan]]), 3)
        0.944
    """
    return float(_alpha(_unit_sums(ratings).sum(axis=0)))


def krippendorff_interval(
    ratings: ArrayLike, clusters: ArrayLike | None = None, *, resamples: int = 2000, seed: int = 0
) -> NDArray[np.float64]:
    """Computes a 95 percent bootstrap interval of `krippendorff_alpha` over units.

    Args:
        ratings: (P, N): see `krippendorff_alpha`.
        clusters: (N,): units of the same cluster, such as questions about one image, are drawn
            together, because they are not independent. None: each unit alone.

    Returns:
        (2,) float64: lower and upper bound, without the resamples for which alpha is not defined;
        NaN if it is defined for none.
    """
    sums = _unit_sums(ratings)  # (N, 4)
    if clusters is not None:
        sums = cluster_sums(sums, clusters)
    # alpha depends on the number of ratings, so means become sums again.
    values = _alpha(resampled_means(sums.T, resamples, seed) * len(sums))
    values = values[np.isfinite(values)]
    return interval(values) if len(values) else np.full(2, np.nan)


def _unit_sums(ratings: ArrayLike) -> NDArray[np.float64]:
    """(N, 4): of each unit m, sum x, sum x^2, and its term of n D_o; 0 below two ratings."""
    array = np.asarray(ratings, dtype=np.float64)
    given = ~np.isnan(array)
    given &= given.sum(axis=0) >= 2
    if not given.any():
        return np.zeros((array.shape[1], 4))
    # alpha does not depend on the origin; around 0 the difference of squares is accurate.
    array = np.where(given, array - array[given].mean(), 0.0)
    number, total, squares = given.sum(axis=0), array.sum(axis=0), (array**2).sum(axis=0)
    within = 2 * (number * squares - total**2) / np.maximum(number - 1, 1)
    return np.stack([number, total, squares, within], axis=1)


def _alpha(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Alpha from (..., 4) sums over units."""
    number, total, squares, within = np.moveaxis(sums, -1, 0)
    between = 2 * (number * squares - total**2)
    varied = between > _ROUNDING * number * squares
    share = np.divide(
        (number - 1) * within, between, out=np.full_like(between, np.nan), where=varied
    )
    return 1 - share
