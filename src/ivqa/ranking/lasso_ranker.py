"""The LASSO solver as ivqa uses it: the fastest number format of the device, errors for users."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ivqa.device import fastest_dtype
from ivqa.errors import UserError
from ivqa.lasso import (
    TOLERANCE,
    LassoSolver,
    OnUncertified,
    Ranking,
    SolverSettings,
    UncertifiedError,
)


class LassoRanker(LassoSolver):
    """Ranks a pool of basic questions by LASSO [ROB 3].

    Args:
        pool: (N, d) float32, one vector a row.
        lam: Weight of |x|_1.
        positive: x >= 0, the scores of the papers; False frees the signs.
        intercept: Centres each vector over its d coordinates, as the published code did.
        tolerance: The largest relative duality gap of a certified ranking.
        device: Where products with the whole pool are computed.
        on_uncertified: "warn" or "error" for rankings with a larger gap.
        settings: Constants of the solver. Where `screening` is None, it is the fastest number
            format of the device; certificates hold for each.

    Raises:
        ValueError: As for `LassoSolver`.
    """

    def __init__(
        self,
        pool: NDArray[np.float32],
        lam: float = 1e-6,
        positive: bool = True,
        *,
        intercept: bool = False,
        tolerance: float = TOLERANCE,
        device: str = "cpu",
        on_uncertified: OnUncertified = "warn",
        settings: SolverSettings | None = None,
    ) -> None:
        settings = settings or SolverSettings()
        super().__init__(
            pool,
            lam,
            positive,
            intercept=intercept,
            tolerance=tolerance,
            device=device,
            on_uncertified=on_uncertified,
            settings=replace(settings, screening=settings.screening or fastest_dtype(device)),
        )

    def rank(
        self,
        vectors: NDArray[np.float32],
        k: int = 21,
        exclude: Sequence[Sequence[int]] | None = None,
    ) -> Ranking:
        """Ranks the pool for each main question.

        Args:
            vectors: (B, d) float32, of the main questions.
            k: Length of the rankings.
            exclude: For each main question the rows of the pool that it must not use.

        Returns:
            The k best rows of each main question, with scores and duality gaps.

        Raises:
            ValueError: As for `LassoSolver.rank`.
            UserError: Rankings are uncertified and on_uncertified is "error".
        """
        try:
            return super().rank(vectors, k, exclude)
        except UncertifiedError as error:
            raise UserError(str(error)) from error
