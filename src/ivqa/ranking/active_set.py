"""Many small LASSO problems at once, solved exactly: the ones inside a working set.

min_x 1/2 x^T G x - c^T x + lam |x|_1, in float64, for B problems of p variables in one batch.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Equal columns make G singular. Solutions are refined, so this costs no accuracy.
_RIDGE = 1e-13
# Relative to lam: how far a gradient may be over it. At lam = 1e-6 this is all that float64 has.
_SLACK = 1e-7
# The same of what is taken for a solution.
_FAULT = 1e-4
# Exchanges that may pass without fewer faults than ever before [Kim & Park 2011, alg. 2].
_PATIENCE = 3
# Variables that a path lets in before it looks at all gradients again.
_ENTERING = 16


def solve_in_working_set(
    gram: Tensor,
    correlations: Tensor,
    lam: Tensor,
    *,
    positive: bool,
    start: Tensor | None = None,
    exchange: bool = True,
) -> Tensor:
    """Solutions x (B, p) float64.

    gram: G (B, p, p). correlations: c (B, p), -inf where a variable must stay zero. lam: (B,).
    positive: x >= 0; otherwise signs are free. start: a feasible x (B, p) to begin with.
    exchange: whether to try whole blocks of variables first, which solves nearly all problems in a
    few steps unless G is nearly singular, but may cycle; the rest go to a method that cannot.
    """
    allowed = torch.isfinite(correlations)
    target = torch.where(allowed, correlations, 0.0)
    solution = torch.zeros_like(target) if start is None else start.clone()
    open_ = torch.arange(len(target))
    if exchange:
        open_ = _exchange(gram, target, allowed, lam[:, None], positive, solution)
    for row in open_.tolist():
        problem = (gram[row].numpy(), target[row].numpy(), float(lam[row]))
        may, before = allowed[row].numpy(), solution[row].numpy().copy()
        found = _Path(*problem, before).solve(may, positive)
        if not _fault(*problem, found, may, positive) <= _FAULT:
            # Columns that depend on each other were in use, and their inverse is noise; a path
            # from zero never lets them in together.
            found = _Path(*problem, np.zeros_like(before)).solve(may, positive)
        solution[row] = torch.from_numpy(found)
    return solution


def _fault(
    gram: NDArray[np.float64],
    target: NDArray[np.float64],
    lam: float,
    x: NDArray[np.float64],
    allowed: NDArray[np.bool_],
    positive: bool,
) -> float:
    """How far x is from optimal: the largest excess or lack of a gradient, relative to lam."""
    products = torch.mv(torch.from_numpy(gram), torch.from_numpy(x))  # not in numpy's threads
    gradient = target - products.numpy()
    outside = np.where(allowed, gradient if positive else np.abs(gradient), 0).max()
    inside = np.where(x != 0, np.abs(gradient - lam * np.sign(x)), 0).max()
    return float(max(outside / lam - 1, inside / lam))


def _exchange(
    gram: Tensor, target: Tensor, allowed: Tensor, lam: Tensor, positive: bool, solution: Tensor
) -> Tensor:
    """Block principal pivoting; writes what it solves into `solution`, returns the other rows.

    All variables with a wrong sign leave and all with too large a gradient enter, at once.
    """
    todo, failed = torch.arange(len(target)), []
    least = torch.full((len(target),), target.shape[1] + 1)
    patience = torch.full_like(least, _PATIENCE)
    signs = solution.sign()
    signs += _entering(target - _times(gram, solution), allowed & (signs == 0), lam, positive)
    while len(todo):
        x = _minimum(gram, target - lam * signs, signs != 0)
        gradient = target - _times(gram, x)
        after = torch.where(x * signs > 0, signs, 0.0)
        after += _entering(gradient, allowed & (signs == 0), lam, positive)
        faults = (after != signs).sum(dim=1)
        patience = torch.where(faults < least, _PATIENCE, patience - 1)
        least = torch.minimum(least, faults)
        done = faults == 0
        solution[todo[done]] = x[done]
        lost = ~done & ((patience < 0) | ~torch.isfinite(x).all(dim=1))
        failed.append(todo[lost])
        if not (on := ~done & ~lost).all():
            todo, gram, target, allowed, lam = todo[on], gram[on], target[on], allowed[on], lam[on]
            after, least, patience = after[on], least[on], patience[on]
        signs = after
    return torch.cat(failed) if failed else todo


def _entering(gradient: Tensor, may: Tensor, lam: Tensor, positive: bool) -> Tensor:
    """The signs with which variables enter (B, p), 0 where they do not."""
    key = gradient if positive else gradient.abs()
    return torch.where(may & (key > lam * (1 + _SLACK)), gradient.sign(), 0.0)


def _times(gram: Tensor, x: Tensor) -> Tensor:
    return torch.bmm(gram, x[:, :, None])[:, :, 0]


def _minimum(gram: Tensor, right: Tensor, inside: Tensor) -> Tensor:
    """The solution of G_S x_S = right_S for the variables S inside, (B, p), 0 elsewhere."""
    size, width = gram.shape[1], int(inside.sum(dim=1).max())
    if not width:
        return torch.zeros_like(right)
    place = inside.int().topk(width, dim=1).indices  # the variables inside first, (B, s)
    real = inside.gather(1, place)
    flat = (place[:, :, None] * size + place[:, None]).flatten(1)
    system = gram.flatten(1).gather(1, flat).view(-1, width, width)
    if not real.all():
        system.masked_fill_(~(real[:, :, None] & real[:, None]), 0.0)
        system.diagonal(dim1=1, dim2=2).masked_fill_(~real, 1.0)
    system.diagonal(dim1=1, dim2=2).add_(_RIDGE)
    values = torch.where(real, right.gather(1, place), 0.0)[:, :, None]
    factor, fault = torch.linalg.cholesky_ex(system)
    found = torch.cholesky_solve(values, factor)
    off = values - torch.bmm(system, found) + _RIDGE * found  # of the system without the ridge
    found += torch.cholesky_solve(off, factor)
    found[fault != 0] = torch.nan
    return torch.zeros_like(right).scatter(1, place, torch.where(real, found[:, :, 0], 0.0))


class _Path:
    """One problem by single pivots along a path on which the variables inside stay optimal.

    A variable grows from zero; each one inside that reaches zero on the way leaves. The inverse
    of G over the variables inside is kept by updates of rank one; it is zero elsewhere.
    """

    def __init__(
        self,
        gram: NDArray[np.float64],
        target: NDArray[np.float64],
        lam: float,
        start: NDArray[np.float64],
    ) -> None:
        self.gram, self.target, self.lam = gram, target, lam
        self.x, self.signs = start.copy(), np.sign(start)
        self._invert()
        self._settle()

    def solve(self, allowed: NDArray[np.bool_], positive: bool) -> NDArray[np.float64]:
        """The solution (p,); `allowed` variables only."""
        enough = self.lam * (1 + _SLACK)
        for _ in range(len(self.x) + 8):
            gradient = self.target - self._gram_times(self.x)
            key = gradient if positive else np.abs(gradient)
            key = np.where(allowed & (self.signs == 0), key, 0)
            if key.max() <= enough:
                break
            for entering in np.argsort(-key)[:_ENTERING]:
                slope = self.target[entering] - self.gram[entering] @ self.x
                if key[entering] > enough and (slope if positive else abs(slope)) > enough:
                    self._enter(int(entering), float(np.sign(slope)), abs(slope) - self.lam)
            self._refine()
        return np.where(self.x * self.signs > 0, self.x, 0)

    def _enter(self, entering: int, sign: float, excess: float) -> None:
        """Grows x_entering until its gradient is lam, where `excess` is what it is over that."""
        column = self.gram[entering]
        change = -sign * self._inverse_times(column)  # of x for a unit of |x_entering|
        curvature = column[entering] + sign * (column @ change)
        change[entering] = sign
        while True:
            first, room = self._first_to_zero(change)
            reach = excess / curvature if curvature > 1e-14 else np.inf
            if reach <= room:
                break
            self.x += room * change
            excess -= room * curvature
            curvature += self._leave(first, change)
        if np.isfinite(reach):
            self.x += reach * change
            self.signs[entering] = sign
            self._add_square(change, 1 / curvature)

    def _first_to_zero(self, change: NDArray[np.float64]) -> tuple[int, float]:
        """Which variable inside a step along `change` brings to zero first, and how long it is."""
        shrinks = np.flatnonzero(self.signs * change < 0)
        if not len(shrinks):
            return -1, np.inf
        room = np.maximum(-self.x[shrinks] / change[shrinks], 0)
        first = room.argmin()
        return int(shrinks[first]), float(room[first])

    def _leave(self, leaving: int, change: NDArray[np.float64]) -> float:
        """Takes a variable out; corrects `change`, returns what the curvature gains."""
        column = self.inverse[:, leaving].copy()
        pivot, share = column[leaving], change[leaving] / column[leaving]
        self._add_square(column, -1 / pivot)
        self.inverse[leaving], self.inverse[:, leaving] = 0, 0
        change -= share * column
        change[leaving] = 0
        self.x[leaving], self.signs[leaving] = 0, 0
        return float(share * share * pivot)

    def _settle(self) -> None:
        """Moves to the minimum over the variables inside; those that reach zero first leave."""
        goal = self._inverse_times(self.target - self.lam * self.signs)
        while True:
            change = goal - self.x
            first, room = self._first_to_zero(change)
            if room >= 1:
                break
            self.x += room * change
            self._leave(first, goal)
        self.x = goal
        self._refine()

    def _invert(self) -> None:
        inside = np.flatnonzero(self.signs)
        block = self.gram[np.ix_(inside, inside)] + _RIDGE * np.eye(len(inside))
        self.inverse = np.zeros_like(self.gram)
        self.inverse[np.ix_(inside, inside)] = torch.linalg.inv(torch.from_numpy(block)).numpy()

    def _refine(self) -> None:
        """Newton steps over the variables inside, against rounding; a new inverse if it is bad."""
        for attempt in range(4):
            right = self.target - self.lam * self.signs - self._gram_times(self.x)
            right[self.signs == 0] = 0
            if np.abs(right).max() <= 0.1 * _SLACK * self.lam:
                break
            if attempt == 2:
                self._invert()
            self.x += self._inverse_times(right)

    # Torch keeps to the threads it is given; numpy would start more.
    def _inverse_times(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        return torch.mv(torch.from_numpy(self.inverse), torch.from_numpy(right)).numpy()

    def _gram_times(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return torch.mv(torch.from_numpy(self.gram), torch.from_numpy(x)).numpy()

    def _add_square(self, vector: NDArray[np.float64], weight: float) -> None:
        column = torch.from_numpy(vector)
        torch.from_numpy(self.inverse).addr_(column, column, alpha=weight)
