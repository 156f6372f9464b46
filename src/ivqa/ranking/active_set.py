"""Many small LASSO problems at once, solved exactly: the ones inside a working set.

min_x 1/2 x^T G x - c^T x + lam |x|_1, in float64, for B problems of p variables in one batch.
"""

import torch
from torch import Tensor

# Equal or nearly equal columns make G singular. This much of the identity moves the gradient by
# about 1e-12, a thousandth of what the certificate of a problem with lam = 1e-6 notices.
_RIDGE = 1e-12
# Variables that enter at once: many at first, then one, which cannot fail to make progress.
_ENTERING = (16, 16, 8, 8, 8, 4, 4, 4, 4, 2, 2, 2, 2)


def solve_in_working_set(
    gram: Tensor, correlations: Tensor, lam: float, *, positive: bool, start: Tensor | None = None
) -> Tensor:
    """Solutions x (B, p) float64 by an active-set method (Lawson & Hanson 1974, ch. 23).

    gram: G (B, p, p). correlations: c (B, p), -inf where a variable must stay zero. positive:
    x >= 0; otherwise signs are free. start: a feasible x (B, p) to begin with.

    Variables whose gradient is too large enter; then x moves towards the minimum over the
    variables inside, and leaves behind those that would change their sign on the way.
    """
    allowed = torch.isfinite(correlations)
    target = torch.where(allowed, correlations, torch.zeros_like(correlations))
    solution = torch.zeros_like(target) if start is None else start.clone()
    todo = torch.arange(len(target), device=target.device)
    most = 3 * target.shape[1] + len(_ENTERING)
    for number in range(most):
        x, matrix = solution[todo], gram[todo]
        gradient = target[todo] - torch.bmm(matrix, x[:, :, None])[:, :, 0]
        key = gradient if positive else gradient.abs()
        key = torch.where(allowed[todo] & (x == 0), key, torch.zeros_like(key))
        wrong = key > lam * (1 + 1e-6)
        open_ = wrong.any(dim=1)
        if not open_.any():
            break
        todo, x, matrix = todo[open_], x[open_], matrix[open_]
        wrong, key, gradient = wrong[open_], key[open_], gradient[open_]
        count = _ENTERING[number] if number < len(_ENTERING) else 1
        best = key.topk(min(count, key.shape[1]), dim=1).indices
        enter = torch.zeros_like(wrong).scatter_(1, best, True) & wrong
        signs = torch.where(enter, gradient.sign(), x.sign())
        solution[todo] = _descend(matrix, target[todo], lam, x, signs)
    return solution


def _descend(gram: Tensor, target: Tensor, lam: float, x: Tensor, signs: Tensor) -> Tensor:
    """The minimum over the variables with a sign, without those that would change it."""
    x, signs = x.clone(), signs.clone()
    rows = torch.arange(len(x), device=x.device)
    for _ in range(x.shape[1]):
        here, sign = x[rows], signs[rows]
        goal = _minimum(gram[rows], target[rows] - lam * sign, sign != 0)
        blocked = (sign != 0) & (goal * sign <= 0)
        share = torch.where(blocked, here / (here - goal), torch.ones_like(here))
        share = torch.nan_to_num(share, nan=0.0)  # 0 / 0: it is at zero and wants to stay
        step = share.amin(dim=1, keepdim=True)
        here = here + step * (goal - here)
        gone = blocked & (share <= step)
        x[rows] = torch.where(gone | (sign == 0), torch.zeros_like(here), here)
        signs[rows] = torch.where(gone, torch.zeros_like(sign), sign)
        rows = rows[blocked.any(dim=1)]
        if not len(rows):
            break
    return x


def _minimum(gram: Tensor, right: Tensor, inside: Tensor) -> Tensor:
    """The solution of G_S x_S = right_S for the variables S inside, (B, p), 0 elsewhere."""
    width = int(inside.sum(dim=1).max())
    place = inside.int().topk(width, dim=1).indices  # the variables inside first, (B, s)
    real = inside.gather(1, place)
    rows = gram.gather(1, place[:, :, None].expand(-1, -1, gram.shape[2]))
    system = rows.gather(2, place[:, None].expand(-1, width, -1))  # (B, s, s)
    eye = torch.eye(width, dtype=gram.dtype, device=gram.device)
    system = torch.where(real[:, :, None] & real[:, None], system, eye) + _RIDGE * eye
    values = torch.where(real, right.gather(1, place), torch.zeros_like(right[:, :width]))
    factor = torch.linalg.cholesky_ex(system).L
    found = torch.cholesky_solve(values[:, :, None], factor)[:, :, 0]
    return torch.zeros_like(right).scatter(1, place, torch.where(real, found, 0.0))
