"""The certificate of a LASSO solution: its duality gap, for any x and any dual direction."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# The largest gap, relative to the primal value, of a certified ranking.
TOLERANCE = 1e-6
# The dual point is at most lam / (_MIN_CORRELATION * lam) times the direction: a limit is needed
# where no column correlates with it.
_MIN_CORRELATION = 1e-6
# Replaces divisors that are 0.
_TINY = 1e-300


def relative_gaps(
    target: Tensor,
    residual: Tensor,
    norms: Tensor,
    direction: Tensor,
    largest: Tensor,
    lam: float,
) -> Tensor:
    """Relative duality gaps (primal - dual) / primal of B problems.

    The primal is 1/2 |r|^2 + lam |x|_1. The dual is b^T z - 1/2 |z|^2, for z with a_j^T z <= lam
    for every column (|a_j^T z| <= lam where signs are free). It is at most the minimum of the
    primal, so the gap bounds how far x is from the minimum. The dual point is z = s * direction
    with the best s >= 0.

    Args:
        target: b, (B, d) float64; centred where the problem has an intercept.
        residual: r = b - A x, (B, d) float64; centred where the problem has an intercept.
        norms: |x|_1, (B,) float64.
        direction: (B, d) float64, the residual or a vector near it.
        largest: the largest a_j^T direction over all columns (its magnitude where signs are
            free), (B,) float64.
        lam: Weight of |x|_1.

    Returns:
        The gaps, (B,) float64, at least the rounding of float64.

    Example:
        >>> b = torch.tensor([[1.0, 0.5]]).double()  # A = I: at lam = 0.25 x = (0.75, 0.25)
        >>> x = torch.tensor([[0.75, 0.25]]).double()
        >>> gap = relative_gaps(b, b - x, x.sum(1), b - x, (b - x).amax(1), 0.25)
        >>> bool(gap < 1e-15)
        True
    """
    bound = largest.clamp_min(lam * _MIN_CORRELATION)
    square, along = direction.square().sum(dim=1), (target * direction).sum(dim=1)
    primal = 0.5 * residual.square().sum(dim=1) + lam * norms
    # The dual is a concave parabola in s with its vertex at b^T direction / |direction|^2. Beyond
    # lam / bound the point violates a constraint.
    scale = torch.minimum((along / square.clamp_min(_TINY)).clamp_min(0), lam / bound)
    dual = scale * along - 0.5 * scale.square() * square
    # A gap below the rounding of float64 cannot be certified.
    return ((primal - dual) / primal.clamp_min(_TINY)).clamp_min(torch.finfo(torch.float64).eps)


def reported_gaps(gaps: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    """Rounds gaps (B,) up to multiples of a ten-thousandth of the tolerance; each stays a bound.

    A gap far below the tolerance is the difference of two nearly equal sums. Its digits depend on
    the processor and on where arrays lie in memory, so that they would change from run to run. A
    gap within the tolerance stays within it.

    Example:
        >>> gaps = reported_gaps(np.array([1.178e-12, 1.178e-12 + 2e-16, 2.00001e-6]), 1e-6)
        >>> [f"{gap:.5e}" for gap in gaps]
        ['1.00000e-10', '1.00000e-10', '2.00010e-06']
    """
    # In this order a gap of exactly the tolerance remains it.
    return np.ceil(gaps / tolerance * 1e4) / 1e4 * tolerance
