"""McNemar's test: do two models that answered the same questions differ in accuracy?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom


@dataclass(frozen=True)
class McNemar:
    """The result of McNemar's test.

    Args:
        only_first: Number of questions that only the first model answered correctly.
        only_second: Number of questions that only the second model answered correctly.
        p_value: Two-sided mid-p value in [0, 1].
    """

    only_first: int
    only_second: int
    p_value: float


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> McNemar:
    """Runs McNemar's exact two-sided test with mid-p (Fagerland et al. 2013).

        p = 2 P(X < k) + P(X = k),  X ~ Binomial(n, 1/2)

    where n is the number of questions that exactly one model answered correctly, and k is the
    smaller of the two counts. Under the null hypothesis both models are equally good. The mid-p
    value counts P(X = k) once instead of twice, which makes the exact test less conservative.

    Args:
        first: (N,) bool: whether the first model answered each question correctly.
        second: (N,) bool: the same for the second model and the same questions.

    Returns:
        The two counts and p; p is 1 if the models never differ.

    Raises:
        ValueError: The arrays differ in shape.

    Example:
        >>> correct = np.array([True] * 12 + [False] * 2)
        >>> test = mcnemar(correct, ~correct)
        >>> test.only_first, test.only_second, round(test.p_value, 4)
        (12, 2, 0.0074)
    """
    if first.shape != second.shape:
        raise ValueError(f"McNemar's test pairs answers: {len(first)} do not pair {len(second)}")
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    number, fewer = only_first + only_second, min(only_first, only_second)
    # P(X <= k) = P(X < k) + P(X = k), so this is the sum in the docstring.
    p_value = 2 * binom.cdf(fewer, number, 0.5) - binom.pmf(fewer, number, 0.5)
    # With equal counts p is 1 up to rounding.
    return McNemar(only_first, only_second, float(min(p_value, 1.0)))
