"""The bootstrap: uncertainty of a mean due to the choice of questions or of images."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

_MAX_INDICES = 10_000_000  # random indices in memory at once


def resampled_means(
    values: NDArray[np.floating | np.bool_],
    resamples: int,
    seed: int,
    clusters: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Computes bootstrap means (Efron 1979; of clusters: Davison and Hinkley 1997, section 3.8).

    Each resample draws K clusters of columns with replacement. It uses the same columns for all
    rows, so that rows measured on the same questions (noise levels, two models) are compared in
    pairs.

    Args:
        values: (S, N): S measurements of N questions.
        resamples: Number R of resamples.
        clusters: (N,): questions of the same cluster, such as those about one image, are drawn
            together, because they are not independent. None: each question alone.

    Returns:
        (R, S) float64: mean of each row over the drawn columns.

    Raises:
        ValueError: `values` has no columns, or another number of them than `clusters`.

    Example:
        >>> resampled_means(np.ones((2, 5)), resamples=3, seed=0).shape
        (3, 2)
        >>> set(resampled_means(np.eye(2), 99, seed=0, clusters=[7, 7]).ravel().tolist())
        {0.5}
    """
    number, size = values.shape
    if not size:
        raise ValueError("the bootstrap needs at least one question")
    columns = np.ones((size, number + 1))  # the last one counts the questions
    columns[:, :number] = values.T
    if clusters is not None:
        columns = cluster_sums(columns, clusters)
    rng = np.random.default_rng(seed)
    drawn_sums = np.empty((resamples, number + 1))
    per_pass = max(1, _MAX_INDICES // len(columns))
    for start in range(0, resamples, per_pass):
        drawn = rng.integers(0, len(columns), (min(per_pass, resamples - start), len(columns)))
        # With counts of the drawn columns, the sums are one matrix product.
        counts = np.stack([np.bincount(row, minlength=len(columns)) for row in drawn])
        drawn_sums[start : start + len(drawn)] = counts @ columns
    return drawn_sums[:, :number] / drawn_sums[:, number:]


def with_ends(name: str, value: float, low: float, high: float) -> dict[str, float]:
    """A figure NAME with the ends of its interval, NAME_low and NAME_high."""
    return {name: float(value), f"{name}_low": float(low), f"{name}_high": float(high)}


def cluster_sums(
    values: NDArray[np.floating | np.integer], clusters: ArrayLike
) -> NDArray[np.float64]:
    """Adds up the rows (N, S) of each cluster, in the order in which the K clusters first occur.

    `clusters` (N,) has the cluster of each row.

    Raises:
        ValueError: The numbers of rows and of clusters differ.

    Example:
        >>> cluster_sums(np.array([[1.0], [2.0], [4.0]]), ["b", "a", "b"]).tolist()
        [[5.0], [2.0]]
    """
    owner, names = pd.factorize(np.asarray(clusters))
    if len(owner) != len(values):
        raise ValueError(f"{len(owner)} clusters for {len(values)} values; give one each")
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, owner, values)
    return sums


def interval(samples: NDArray[np.floating]) -> NDArray[np.float64]:
    """Computes the 95 percent percentile interval of bootstrap samples.

    Args:
        samples: (R, ...): R samples.

    Returns:
        (2, ...) float64: lower and upper bounds.

    Example:
        >>> interval(np.arange(101.0)).round(9).tolist()
        [2.5, 97.5]
    """
    tail = (1 - 0.95) / 2
    return np.quantile(samples, [tail, 1 - tail], axis=0)
