"""The LASSO solver as this package uses it: number format of the machine, errors for users."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ivqa.device import fastest_dtype
from ivqa.errors import UserError
from ivqa.lasso import TOLERANCE, LassoSolver, OnUncertified, Ranking, UncertifiedError


class LassoRanker(LassoSolver):
    """Ranks a pool of basic questions by LASSO [ROB 3]; see `LassoSolver` for all arguments.

    Args:
        pool: (N, d) float32, one vector a row.
        lam: Weight of the l1 norm.
        positive: x >= 0, the scores of the papers; false frees the signs.
        screening: Number format of the products that look for missed columns; None takes the
            fastest that the device multiplies. Certificates hold in any case.
    """

    def __init__(
        self,
        pool: NDArray[np.float32],
        lam: float = 1e-6,
        positive: bool = True,
        *,
        intercept: bool = False,
        tolerance: float = TOLERANCE,
        working_set: int | None = None,
        batch_size: int = 1024,
        device: str = "cpu",
        screening: torch.dtype | None = None,
        progress: bool = False,
        on_uncertified: OnUncertified = "warn",
    ) -> None:
        super().__init__(
            pool,
            lam,
            positive,
            intercept=intercept,
            tolerance=tolerance,
            working_set=working_set,
            batch_size=batch_size,
            device=device,
            screening=screening or fastest_dtype(device),
            progress=progress,
            on_uncertified=on_uncertified,
        )

    def rank(
        self,
        vectors: NDArray[np.float32],
        k: int = 21,
        exclude: Sequence[Sequence[int]] | None = None,
    ) -> Ranking:
        """The k best of the pool for each main question; see `LassoSolver.rank`.

        Raises:
            UserError: Rankings are uncertified and on_uncertified is "error".
        """
        try:
            return super().rank(vectors, k, exclude)
        except UncertifiedError as error:
            raise UserError(str(error)) from error
