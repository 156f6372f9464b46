"""Many small LASSO problems at once, solved exactly: the ones inside a working set.

min_x 1/2 x^T G x - c^T x + lam |x|_1, in float64, for B problems of p variables in one batch.
"""

import torch
from torch import Tensor

# Equal or nearly equal columns make G singular. This much of the identity moves the gradient by
# about 1e-12, a thousandth of what the certificate of a problem with lam = 1e-6 notices.
_RIDGE = 1e-12
_PATIENCE = 3
_MOST_EXCHANGES = 400


def solve_in_working_set(
    gram: Tensor, correlations: Tensor, lam: float, *, positive: bool, start: Tensor | None = None
) -> Tensor:
    """Solutions x (B, p) float64 by block principal pivoting (Portugal et al. 1994).

    gram: G (B, p, p). correlations: c (B, p), -inf where a variable must stay zero. positive:
    x >= 0; otherwise signs are free. start: x (B, p) whose signs are the first guess.

    All variables with the wrong sign leave, and all whose gradient is too large enter, at once;
    where that makes no progress three times in a row, a problem exchanges only its last wrong
    variable, which cannot cycle (Murty 1974).
    """
    size, count = correlations.shape
    allowed = torch.isfinite(correlations)
    target = torch.where(allowed, correlations, torch.zeros_like(correlations))
    eye = torch.eye(count, dtype=gram.dtype, device=gram.device)
    signs = torch.zeros_like(target) if start is None else start.sign()
    solution = torch.zeros_like(target)
    fewest = torch.full((size,), count + 1, device=gram.device)
    patience = torch.full((size,), _PATIENCE, device=gram.device)
    todo = torch.arange(size, device=gram.device)
    slack = 1e-6 * lam
    for _ in range(_MOST_EXCHANGES):
        chosen, matrix = signs[todo], gram[todo]
        inside = chosen != 0
        system = torch.where(inside[:, :, None] & inside[:, None, :], matrix, eye) + _RIDGE * eye
        right = torch.where(inside, target[todo] - lam * chosen, torch.zeros_like(chosen))
        factor = torch.linalg.cholesky_ex(system).L
        x = torch.cholesky_solve(right[:, :, None], factor)[:, :, 0]
        gradient = target[todo] - torch.bmm(matrix, x[:, :, None])[:, :, 0]
        upward = gradient > lam + slack
        downward = torch.zeros_like(upward) if positive else gradient < -lam - slack
        enter = ~inside & allowed[todo] & (upward | downward)
        leave = inside & (x * chosen <= 0)
        wrong = enter | leave
        number = wrong.sum(dim=1)
        solution[todo] = x
        better = number < fewest[todo]
        fewest[todo] = torch.minimum(fewest[todo], number)
        patience[todo] = torch.where(better, _PATIENCE, patience[todo] - 1)
        last = count - 1 - wrong.flip(1).int().argmax(dim=1)  # the wrong variable of largest index
        single = torch.zeros_like(wrong).scatter_(1, last[:, None], True)
        moved = torch.where((patience[todo] < 0)[:, None], wrong & single, wrong)
        entering = torch.where(downward, -1.0, 1.0).to(chosen.dtype)
        signs[todo] = torch.where(
            moved & leave, torch.zeros_like(chosen), torch.where(moved & enter, entering, chosen)
        )
        todo = todo[number > 0]
        if not len(todo):
            break
    return solution
