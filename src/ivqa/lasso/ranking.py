"""The result of a ranker, and the reaction to rankings without a certificate."""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ivqa.lasso.certificate import TOLERANCE

OnUncertified = Literal["warn", "error"]


class UncertifiedError(ValueError):
    """The duality gap of a ranking exceeds the tolerance, and on_uncertified is "error"."""


@dataclass(frozen=True)
class Ranking:
    """The k best basic questions of each of B main questions.

    Attributes:
        indices: (B, k) int64 rows of the pool, best first.
        scores: (B, k) float32, the coefficients; 0 for rankers without scores.
        gap: (B,) float64, (primal - dual) / primal over the whole pool; 0 for rankers that solve
            no problem.
        support: (B,) int64, how many of the k have a score over 0: counted where it is not given.
            A LASSO ranking continues behind them by correlation with the residual, with score 0.
        rounds: Passes over the pool that the slowest question needed.
        tolerance: The largest gap of a certified ranking.
    """

    indices: NDArray[np.int64]
    scores: NDArray[np.float32] = None  # type: ignore[assignment]  # __post_init__ fills it
    gap: NDArray[np.float64] = None  # type: ignore[assignment]
    support: NDArray[np.int64] = None  # type: ignore[assignment]
    rounds: int = 0
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if self.scores is None:
            object.__setattr__(self, "scores", np.zeros(self.indices.shape, np.float32))
        if self.gap is None:
            object.__setattr__(self, "gap", np.zeros(len(self.indices)))
        if self.support is None:
            object.__setattr__(self, "support", (self.scores > 0).sum(axis=1))

    @property
    def certified(self) -> NDArray[np.bool_]:
        """Whether each ranking has a gap within the tolerance, (B,)."""
        return self.gap <= self.tolerance

    @property
    def uncertified(self) -> int:
        """The number of rankings whose gap exceeds the tolerance or is nan."""
        return len(self.gap) - int(self.certified.sum())

    def report_uncertified(self, action: OnUncertified) -> None:
        """Warns of uncertified rankings, if there are any.

        Raises:
            UncertifiedError: There are some and the action is "error".
        """
        if not self.uncertified:
            return
        first = int(self.certified.argmin())
        text = (
            f"{self.uncertified} of {len(self.gap)} rankings are uncertified: their relative "
            f"duality gap is up to {self.gap.max():.1e}, over {self.tolerance:.0e} (the first is "
            f"main question {first}); their order may be wrong, because the vectors of the pool "
            "nearly depend on each other or lam is too small for their number"
        )
        if action == "error":
            raise UncertifiedError(
                f"{text}; raise lam, set deduplicate, or accept them with on_uncertified=warn"
            )
        warnings.warn(text, stacklevel=3)
