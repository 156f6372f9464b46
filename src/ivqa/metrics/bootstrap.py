"""The bootstrap over questions: uncertainty of a mean due to the choice of questions."""

import numpy as np
from numpy.typing import NDArray

_MAX_INDICES = 10_000_000  # random indices in memory at once


def resampled_means(values: NDArray[np.floating], resamples: int, seed: int) -> NDArray[np.float64]:
    """Computes bootstrap means (Efron 1979).

    Each resample draws N columns with replacement. It uses the same columns for all rows, so that
    rows measured on the same questions (noise levels, two models) are compared in pairs.

    Args:
        values: (S, N): S measurements of N questions.
        resamples: Number R of resamples.
        seed: Seed of the draws.

    Returns:
        (R, S) float64: mean of each row over the drawn columns.

    Raises:
        ValueError: `values` has no columns.

    Example:
        >>> resampled_means(np.ones((2, 5)), resamples=3, seed=0).shape
        (3, 2)
    """
    number, size = values.shape
    if not size:
        raise ValueError("the bootstrap needs at least one question")
    rng = np.random.default_rng(seed)
    columns = np.ascontiguousarray(values.T, dtype=np.float64)  # (N, S)
    means = np.empty((resamples, number))
    per_pass = max(1, _MAX_INDICES // size)
    for start in range(0, resamples, per_pass):
        drawn = rng.integers(0, size, (min(per_pass, resamples - start), size))
        # With counts of the drawn columns, the means are one matrix product.
        counts = np.stack([np.bincount(row, minlength=size) for row in drawn])
        means[start : start + len(drawn)] = counts @ columns / size
    return means


def interval(samples: NDArray[np.floating], level: float = 0.95) -> NDArray[np.float64]:
    """Computes the percentile interval of bootstrap samples.

    Args:
        samples: (R, ...): R samples.
        level: Share of the samples inside the interval, in (0, 1).

    Returns:
        (2, ...) float64: lower and upper bounds; both tails hold (1 - level) / 2 of the samples.

    Example:
        >>> interval(np.arange(101.0)).round(9).tolist()
        [2.5, 97.5]
    """
    tail = (1 - level) / 2
    return np.quantile(samples, [tail, 1 - tail], axis=0)
