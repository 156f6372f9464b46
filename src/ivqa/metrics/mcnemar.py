"""McNemar's test: do two models that answered the same questions differ in accuracy?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom


@dataclass(frozen=True)
class McNemar:
    """only_first, only_second: questions that only one of the two got right. p_value: in [0, 1]."""

    only_first: int
    only_second: int
    p_value: float


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> McNemar:
    """The exact two-sided test with mid-p, for right and wrong answers (N,) to the same questions.

    Of the n questions on which the two differ, k go to the one with fewer of them. Were both
    equally good, k would be binomial with 1/2; p = 2 P(X < k) + P(X = k) counts the observed
    value by half, which makes the exact test less conservative [Fagerland et al. 2013]. Without a
    differing question p is 1. Raises ValueError where the two differ in length.

    >>> right = np.array([True] * 12 + [False] * 2)
    >>> test = mcnemar(right, ~right)
    >>> test.only_first, test.only_second, round(test.p_value, 4)
    (12, 2, 0.0074)
    """
    if first.shape != second.shape:
        raise ValueError(f"McNemar's test pairs answers: {len(first)} do not pair {len(second)}")
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    number, fewer = only_first + only_second, min(only_first, only_second)
    p_value = 2 * binom.cdf(fewer, number, 0.5) - binom.pmf(fewer, number, 0.5)
    return McNemar(only_first, only_second, float(min(p_value, 1.0)))
