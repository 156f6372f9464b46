"""The certificate of a LASSO solution: its duality gap, from any point x and any dual direction."""

import torch
from torch import Tensor

# Gaps, relative to the primal value, up to which a ranking counts as certified.
TOLERANCE = 1e-6


def relative_gaps(
    target: Tensor,
    residual: Tensor,
    norms: Tensor,
    direction: Tensor,
    largest: Tensor,
    lam: float,
) -> Tensor:
    """(primal - dual) / primal of B problems, at the dual points s * direction with the best s.

    The primal is 1/2 |r|^2 + lam |x|_1. The dual is b^T z - 1/2 |z|^2, for z with a_j^T z <= lam
    for every column (|a_j^T z| <= lam where signs are free). It is at most the minimum of the
    primal, so that the gap bounds how far x is from the minimum.

    Args:
        target: b, (B, d) float64; centred where the problem has an intercept.
        residual: r = b - A x, (B, d) float64; centred where the problem has an intercept.
        norms: |x|_1, (B,) float64.
        direction: what the dual point is a multiple of, (B, d) float64; r or near it.
        largest: the largest a_j^T direction over all columns (its magnitude where signs are
            free), (B,) float64.
        lam: weight of |x|_1.

    Returns:
        The gaps, (B,) float64, at least the rounding of float64.
    """
    bound = largest.clamp_min(lam * 1e-6)
    square, along = direction.square().sum(dim=1), (target * direction).sum(dim=1)
    primal = 0.5 * residual.square().sum(dim=1) + lam * norms
    scale = torch.minimum((along / square.clamp_min(1e-300)).clamp_min(0), lam / bound)
    dual = scale * along - 0.5 * scale.square() * square
    # What float64 rounds away is not certified.
    return ((primal - dual) / primal.clamp_min(1e-300)).clamp_min(torch.finfo(torch.float64).eps)
