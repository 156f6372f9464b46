"""What a ranker returns, and what is done about rankings without a certificate."""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ivqa.lasso.certificate import TOLERANCE

OnUncertified = Literal["warn", "error"]


class UncertifiedError(ValueError):
    """Rankings whose duality gap exceeds the tolerance, where that is asked to be an error."""


@dataclass(frozen=True)
class Ranking:
    """The k best basic questions of each of B main questions.

    Attributes:
        indices: (B, k) int64 rows of the pool, best first.
        scores: (B, k) float32, the coefficients.
        gap: (B,) float64, (primal - dual) / primal over the whole pool; 0 where nothing is solved.
        support: (B,) int64, how many of the k have a score over 0; behind them the ranking goes on
            by correlation with the residual, at score 0.
        rounds: passes over the pool that the slowest question needed.
        tolerance: the gap up to which a ranking is certified.
    """

    indices: NDArray[np.int64]
    scores: NDArray[np.float32]
    gap: NDArray[np.float64]
    support: NDArray[np.int64]
    rounds: int
    tolerance: float = TOLERANCE

    @property
    def certified(self) -> NDArray[np.bool_]:
        """Which rankings have a gap within the tolerance, (B,)."""
        return self.gap <= self.tolerance

    @property
    def uncertified(self) -> int:
        """The number of rankings whose gap exceeds the tolerance, or is not a number."""
        return len(self.gap) - int(self.certified.sum())

    def report_uncertified(self, action: OnUncertified) -> None:
        """Warns of uncertified rankings, or raises UncertifiedError where `action` is "error"."""
        if not self.uncertified:
            return
        first = int(self.certified.argmin())
        text = (
            f"{self.uncertified} of {len(self.gap)} rankings are uncertified: their relative "
            f"duality gap is up to {self.gap.max():.1e}, over {self.tolerance:.0e} (the first is "
            f"main question {first}); their order may be wrong"
        )
        if action == "error":
            raise UncertifiedError(
                f"{text}; raise lam, set deduplicate, or accept them with on_uncertified=warn"
            )
        warnings.warn(text, stacklevel=3)
