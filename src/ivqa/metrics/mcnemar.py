"""McNemar's test: do two models that answered the same questions differ in accuracy?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from ivqa.metrics.bootstrap import cluster_sums


@dataclass(frozen=True)
class McNemar:
    """Questions that only one of the models answered correctly; two-sided mid-p value in [0, 1]."""

    only_first: int
    only_second: int
    p_value: float


def mcnemar(
    first: NDArray[np.bool_], second: NDArray[np.bool_], clusters: ArrayLike | None = None
) -> McNemar:
    """Runs McNemar's exact two-sided test with mid-p (Fagerland et al. 2013), also of clusters.

        p = 2 P(S > |s|) + P(S = |s|),  S = sum_k e_k d_k,  s = sum_k d_k

    where d_k is the number of correct answers of the first model in cluster k minus that of the
    second, and e_k is -1 or 1, each with probability 1/2. Under the null hypothesis the models can
    be exchanged within each cluster. With one question a cluster, S is binomial and the test is
    McNemar's. The mid-p value counts the observed outcome once instead of twice, which makes the
    exact test less conservative.

    Args:
        first: (N,) bool: whether the first model answered each question correctly.
        second: (N,) bool: the same for the second model and the same questions.
        clusters: (N,): questions of the same cluster, such as those about one image, are not
            independent. None: each question alone.

    Returns:
        The two counts and p; p is 1 if the models never differ.

    Raises:
        ValueError: The arrays differ in shape.

    Example:
        >>> correct = np.array([True] * 12 + [False] * 2)
        >>> test = mcnemar(correct, ~correct)
        >>> test.only_first, test.only_second, round(test.p_value, 4)
        (12, 2, 0.0074)
        >>> mcnemar(correct, ~correct, clusters=[1] * 14).p_value
        0.5
    """
    if first.shape != second.shape:
        raise ValueError(
            f"mcnemar: both arrays need one value per question, got {len(first)} and {len(second)}"
        )
    differences = first.astype(np.int64) - second
    if clusters is not None:
        differences = cluster_sums(differences[:, None], clusters)[:, 0].astype(np.int64)
    null = _null_distribution(np.abs(differences))
    observed = len(null) // 2 + abs(int(differences.sum()))  # the position of |s|; 0 is the middle
    p_value = 2 * null[observed + 1 :].sum() + null[observed]
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    # Where the models do not differ, p is 1 up to rounding.
    return McNemar(only_first, only_second, float(min(p_value, 1.0)))


def _null_distribution(sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(S = -T), ..., P(S = T) of sizes with random signs, (2 T + 1,); T is their sum."""
    probabilities = np.ones(1)
    for size, count in zip(*np.unique(sizes[sizes > 0], return_counts=True), strict=True):
        own = np.zeros(2 * size * count + 1)  # size (2 X - count), X binomial
        own[:: 2 * size] = binom.pmf(np.arange(count + 1), count, 0.5)
        probabilities = np.convolve(probabilities, own)
    return probabilities
