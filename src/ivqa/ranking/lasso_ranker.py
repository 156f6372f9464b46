"""The LASSO solver as ivqa uses it: the fastest number format of the device, errors for users."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from ivqa.device import fastest_dtype
from ivqa.errors import UserError
from ivqa.lasso import LassoSolver, Ranking, SolverSettings, UncertifiedError
from ivqa.ranges import NO_EFFECT


class LassoRanker(LassoSolver):
    """Ranks a pool of basic questions by LASSO [ROB 3], by default with x >= 0.

    The papers have no sign on x: positive=False. Questions are then ranked by x, and those with
    x < 0 come after all others, with score 0.

    Args:
        *problem: pool, lam and positive of `LassoSolver`.
        device: Where products with the whole pool are computed.
        settings: Constants of the solver. Where `screening` is None, it is the fastest number
            format of the device; certificates hold for each.
        **options: The other arguments of `LassoSolver`. With intercept=True each vector is centred
            over its d coordinates, as the published code did.

    Raises:
        ValueError: As for `LassoSolver`.
    """

    def __init__(
        self,
        *problem: Any,
        device: Annotated[str, NO_EFFECT] = "cpu",
        settings: SolverSettings | None = None,
        **options: Any,
    ) -> None:
        settings = settings or SolverSettings()
        # The solver stands on its own and does not know which formats a device multiplies fast.
        settings = replace(settings, screening=settings.screening or fastest_dtype(device))
        super().__init__(*problem, device=device, settings=settings, **options)

    @override
    def rank(
        self,
        vectors: NDArray[np.float32],
        k: int = 21,
        exclude: Sequence[Sequence[int]] | None = None,
    ) -> Ranking:
        try:
            return super().rank(vectors, k, exclude)
        except UncertifiedError as error:
            # Commands print a UserError as one line, without a traceback.
            raise UserError(str(error)) from error
