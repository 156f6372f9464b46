"""R_score: robustness of a model's accuracy against basic-question noise [ROB eq. 3]."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ivqa.errors import UserError
from ivqa.ranges import PositiveShare, Share
from ivqa.text.answer_matching import Accuracy


@dataclass(frozen=True, kw_only=True)
class RScore:
    """`r_score` with fixed parameters: a function of the clean and the noisy accuracy.

    Args:
        tolerance: t of the paper: up to this change of accuracy the score is 1.
        limit: m of the paper: from this change of accuracy on the score is 0.
        losses_only: Whether noise that raises the accuracy costs nothing: the change is
            max(clean - noisy, 0) instead of |clean - noisy|.
        accuracy: Which accuracies are measured under noise: "official", those of the data set's
            evaluation, for VQA the leave-one-out mean over ten annotators; or "paper",
            min(n / 3, 1) of the n matching annotators [ROB eq. 2; IJCV eq. 6].

    Raises:
        UserError: 0 <= tolerance < limit <= 1 does not hold.

    Example:
        >>> round(RScore(limit=0.5)(0.6579, 0.5712), 2)
        0.6
    """

    version: ClassVar[int] = 1  # of the figures, which tables rest on

    tolerance: Share = 5e-4
    limit: PositiveShare = 0.2
    losses_only: bool = False
    accuracy: Accuracy = "official"

    def __post_init__(self) -> None:
        self.check_arguments(vars(self))

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks the arguments against each other; every command calls this before it starts."""
        tolerance, limit = arguments["tolerance"], arguments["limit"]
        if not 0 <= tolerance < limit <= 1:
            raise UserError(
                f"tolerance={tolerance} and limit={limit} must satisfy 0 <= tolerance < limit <= 1"
            )

    @overload
    def __call__(self, clean: float, noisy: float) -> float: ...
    @overload
    def __call__(self, clean: ArrayLike, noisy: ArrayLike) -> float | NDArray[np.float64]: ...
    def __call__(self, clean: ArrayLike, noisy: ArrayLike) -> float | NDArray[np.float64]:
        """Computes `r_score` of the clean and the noisy accuracy with these parameters."""
        # With losses alone, a gain counts as no change.
        after = np.minimum(clean, noisy) if self.losses_only else noisy
        return r_score(clean, after, self.tolerance, self.limit)


PUBLISHED_R_SCORE = RScore()
"""R_score with the parameters of the paper."""


@overload
def r_score(clean: float, noisy: float, t: float = ..., m: float = ...) -> float: ...
@overload
def r_score(
    clean: ArrayLike, noisy: ArrayLike, t: float = ..., m: float = ...
) -> float | NDArray[np.float64]: ...
def r_score(
    clean: ArrayLike, noisy: ArrayLike, t: float = 5e-4, m: float = 0.2
) -> float | NDArray[np.float64]:
    """Computes the robustness score of [ROB eq. 3].

        R_score = clamp_0^1((sqrt(m) - sqrt(|clean - noisy|)) / (sqrt(m) - sqrt(t)))

    Args:
        clean: Accuracy without noise, in [0, 1]; a number or an array.
        noisy: Accuracy with noise, in [0, 1]; a number or an array that broadcasts.
        t: Tolerance: up to this change of accuracy the score is 1.
        m: Limit: from this change of accuracy on the score is 0.

    Returns:
        A float for two numbers, else a float64 array; in [0, 1].

    Raises:
        ValueError: An accuracy is NaN or outside [0, 1] (above 1: percent was passed), or
            0 <= t < m <= 1 does not hold.

    Example:
        >>> round(r_score(0.6579, 0.5712), 2)
        0.36
        >>> r_score(0.6, [0.6, 0.4, 0.3]).tolist()
        [1.0, 0.0, 0.0]
    """
    if not 0 <= t < m <= 1:
        raise ValueError(f"r_score needs 0 <= t < m <= 1, not t={t} and m={m}")
    before, after = _fractions(clean, "clean"), _fractions(noisy, "noisy")
    # Rounded, so that a change of exactly t or m is not off by the last bit of the subtraction.
    change = np.round(np.abs(before - after), 15)
    scores = np.clip((np.sqrt(m) - np.sqrt(change)) / (np.sqrt(m) - np.sqrt(t)), 0.0, 1.0)
    return float(scores) if scores.ndim == 0 else scores


def _fractions(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """The values as float64; raises ValueError for NaN and values outside [0, 1]."""
    numbers = np.asarray(values, dtype=np.float64)
    if np.isnan(numbers).any():
        raise ValueError(f"r_score: {name} accuracy is NaN; leave out what was not measured")
    if (numbers > 1).any():
        raise ValueError(
            f"r_score: {name} accuracy {numbers.max():g} is over 1: percent was passed; "
            "divide by 100"
        )
    if (numbers < 0).any():
        raise ValueError(f"r_score: {name} accuracy {numbers.min():g} is below 0")
    return numbers
