"""Main questions on their way to a solution, each in a working set of the pool's columns.

Gram matrices cost most, so they are products in float32 while that is enough: what is solved is a
model of the problem around the x at hand, whose gradient is exact (float64). An inexact G costs
another step and no accuracy.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from ivqa.lasso.active_set import SLACK, choose, extend, invert, pick, rest, solve
from ivqa.lasso.pool_products import PoolProducts

# What is added to the diagonal, relative to it, against columns that depend on each other: in
# float32 and in float64. Steps along what they leave open are long, so it costs few more of them.
_RIDGES = {torch.float32: 1e-6, torch.float64: 1e-13}
# Columns that join at a time, and steps before the pool is asked again.
_JOINING, _STEPS = 64, 20
# So few columns that join can wait for the next pass, unless that may be the last.
_HARDLY = 16
# Steps without a new column after which something else is tried.
_STILL = 3
# The tolerated error of gradients while columns are looked for, relative to the residual.
_COARSE = 1e-5

Vector = NDArray[np.float64]
Rows = NDArray[np.int64]


def _no_rows() -> Rows:
    return np.empty(0, np.int64)


@dataclass
class Question:
    """A main question on its way to a solution.

    number: its place among the main questions. lam: the weight of |x|_1 on its way. target: b,
    (d,). banned: rows of the pool that it must not use. residual: b - A x, (d,). columns, weights:
    rows of the pool with x != 0 (s,) and x itself, the minimum over these columns. gram, inverse:
    products of these columns with each other, (s, s), and their inverse. rejected: rows of the
    last working set with x = 0. inside: the largest correlation of a column of the last working
    set with the residual. rounds: passes over the pool so far. certifying: whether x is to be as
    exact as a certificate needs it; precise: whether its products with the pool must be float32.
    exact: whether the Gram matrix is. failed: how often that was beyond float64.
    """

    number: int
    lam: float
    target: Vector
    banned: Rows
    residual: Vector
    columns: Rows = field(default_factory=_no_rows)
    weights: Vector = field(default_factory=lambda: np.empty(0))
    gram: Vector = field(default_factory=lambda: np.empty((0, 0)))
    inverse: Vector = field(default_factory=lambda: np.empty((0, 0)))
    rejected: Rows = field(default_factory=_no_rows)
    inside: float = 0.0
    rounds: int = 0
    certifying: bool = False
    precise: bool = False
    exact: bool = False
    failed: int = 0

    def forget_products(self) -> None:
        """Frees the Gram matrix and its inverse, which only working sets need."""
        self.gram = self.inverse = np.empty((0, 0))


class WorkingSet:
    """Where one question after another is solved; a thread's own.

    Of the columns at hand, rows (n,) of the pool, the first `count` are in the model; only these
    are copied.
    """

    def __init__(self, pool: PoolProducts, *, positive: bool) -> None:
        self.pool, self.positive = pool, positive
        self.gram = self.inverse = np.empty((0, 0))

    def improve(self, question: Question, candidates: Rows, promise: NDArray[np.float32]) -> None:
        """Moves a question to the minimum over its columns and candidates, rows (n,) of the pool.

        promise: by which candidates are chosen at first, (n,). Few of them are needed. All are
        looked at after each step, which is cheaper than a pass over the pool.
        """
        self._begin(question, candidates, promise)
        still, restarted = 0, False
        for step in range(_STEPS):
            before = self.count
            fault = self._choose(
                _JOINING, 0 if question.certifying or not step else before, not step
            )
            still = still + 1 if self.count == before else 0
            done = still or (self.count - before <= _HARDLY and not question.certifying)
            if step and done and fault <= self._tolerated():
                break
            if still > _STILL and question.exact and not restarted:
                # Columns that depend on each other were in use, and their inverse is noise; a
                # path from zero does not let them in together.
                self._restart()
                self._choose(0)
                still, restarted = 0, True
            elif not question.exact and (still > _STILL or 2 * self.count > len(question.target)):
                self._make_exact(before)
            if self.count > before:
                self._multiply(before)
            self._solve()
        else:
            question.failed += question.certifying
            if not np.linalg.norm(question.residual) <= np.linalg.norm(question.target):
                self._restart()  # nothing found is better
            self._choose(0)
        self._end()

    def _tolerated(self) -> float:
        """How far x may be from the minimum, relative to lam."""
        question = self.question
        coarse = _COARSE * np.linalg.norm(question.residual) / question.lam
        return SLACK if question.certifying else max(SLACK, float(coarse))

    def _begin(self, question: Question, candidates: Rows, promise: NDArray[np.float32]) -> None:
        self.question = question
        self.rows = np.concatenate([question.columns, candidates])
        self.columns = self.pool.columns(question.columns, len(self.rows))
        size, total = len(question.columns), len(self.rows)
        if len(self.gram) < total:
            self.gram, self.inverse = np.empty((2, total, total))
        self.gram[:size, :size], self.inverse[:size, :size] = question.gram, question.inverse
        self.x, self.gradient = np.zeros(total), np.empty(total)
        self.x[:size], self.gradient[size:] = question.weights, promise
        self.count, self.inside = size, np.arange(size)

    def _choose(self, most: int, first: int = 0, known: bool = False) -> float:
        """Takes up to `most` columns into the model; returns how far x is from its minimum.

        first: the gradients of the columns before are taken from the model; known: those of
        candidates from what they promise.
        """
        # The residual is centred where columns are meant to be, so they need not be.
        self.count, self.question.inside, fault = choose(
            self.pool.rows.numpy(),
            self.columns.numpy(),
            self.rows,
            self.question.residual,
            self.gradient,
            self.x,
            self.question.lam,
            self.positive,
            first,
            self.count,
            most,
            known,
        )
        return fault

    def _multiply(self, first: int) -> None:
        """Writes the Gram matrix from column `first` on."""
        columns = self.columns[: self.count]
        products = self.pool.gram(columns.double() if self.question.exact else columns, first)
        extend(self.gram, products.numpy(), first, _RIDGES[products.dtype])

    def _make_exact(self, count: int) -> None:
        """Repeats the Gram matrix of the first columns in float64."""
        self.question.exact = True
        after, self.count = self.count, count
        if count:
            self._multiply(0)
            invert(self.gram, self.inside, self.inverse)
        self.count = after

    def _restart(self) -> None:
        """From x = 0 on."""
        self.x[:], self.inside = 0, self.inside[:0]
        self.question.residual = self.question.target

    def _solve(self) -> None:
        """Moves to the minimum of the model."""
        question, count = self.question, self.count
        if not count:
            return
        inside = np.empty(count, np.int64)
        inside[: len(self.inside)] = self.inside
        size = solve(
            self.gram,
            self.gradient[:count],
            question.lam,
            self.positive,
            self.x[:count],
            inside,
            self.inverse,
            len(self.inside),
        )
        self.inside = inside[:size]
        question.residual = rest(question.target, self.columns.numpy(), self.x, self.inside)
        if self.pool.means:
            question.residual -= question.residual.mean()

    def _end(self) -> None:
        """Leaves with the question what its next working set begins with."""
        question, size = self.question, len(self.inside)
        question.columns, question.weights = self.rows[self.inside], self.x[self.inside]
        question.rejected = self.rows[self.x == 0]
        question.gram = pick(self.gram, self.inside)
        question.inverse = self.inverse[:size, :size].copy()
