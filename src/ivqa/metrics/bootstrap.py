"""The bootstrap over questions: how far a figure could be off by the choice of questions."""

import numpy as np
from numpy.typing import NDArray

_MOST_DRAWN = 10_000_000  # indices in memory at once


def resampled_means(values: NDArray[np.floating], resamples: int, seed: int) -> NDArray[np.float64]:
    """Means (resamples, S) of the rows of `values` (S, N) over N columns drawn with replacement.

    The same columns are drawn for all rows of a resample: what is measured on the same questions
    (levels of noise, two models) is compared in pairs. Raises ValueError without columns.
    """
    number, size = values.shape
    if not size:
        raise ValueError("the bootstrap needs at least one question")
    rng = np.random.default_rng(seed)
    columns = np.ascontiguousarray(values.T, dtype=np.float64)  # (N, S)
    means = np.empty((resamples, number))
    at_once = max(1, _MOST_DRAWN // size)
    for start in range(0, resamples, at_once):
        drawn = rng.integers(0, size, (min(at_once, resamples - start), size))
        # How often each column is drawn: the mean over a resample is one product.
        counts = np.stack([np.bincount(row, minlength=size) for row in drawn])
        means[start : start + len(drawn)] = counts @ columns / size
    return means


def interval(samples: NDArray[np.floating], level: float = 0.95) -> NDArray[np.float64]:
    """The bounds (2, ...) that hold `level` of the samples (R, ...) and leave out both tails.

    >>> interval(np.arange(101.0)).round(9).tolist()
    [2.5, 97.5]
    """
    tail = (1 - level) / 2
    return np.quantile(samples, [tail, 1 - tail], axis=0)
