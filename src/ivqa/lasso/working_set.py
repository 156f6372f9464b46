"""Questions in progress, each solved in a working set of the pool's columns.

Gram matrices take most of the time, so they are products in float32 while that is accurate enough.
Each step solves a model of the problem around the current x. The gradient of the model is exact
(float64), so an inexact Gram matrix costs another step and no accuracy.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from ivqa.lasso.active_set import invert_gram, solve_active_set
from ivqa.lasso.column_products import (
    SLACK,
    add_violating_columns,
    extend_gram,
    residual_of,
    submatrix,
)
from ivqa.lasso.compiling import Floats, Ints
from ivqa.lasso.pool_products import PoolProducts

_MAX_STEPS = 20  # steps in the working set before the next pass over the pool
_COLUMNS_PER_STEP = 64  # columns that enter the working set at a time
# New columns that are worth another step. Unless certifying, fewer can wait for the next pass.
_MIN_NEW_COLUMNS = 16
# Steps without a new column after which the Gram matrix is computed in float64 or, if it has been,
# the question restarts at x = 0.
_MAX_IDLE_STEPS = 3
# The tolerated error of gradients before certifying, as a share of the residual's norm.
_COARSE_ERROR = 1e-5
# Columns, as a share of the dimensions, beyond which a Gram matrix is too ill-conditioned for
# float32.
_GRAM_FLOAT64_SHARE = 0.5
# Relative increase of the diagonal of Gram matrices, against columns that depend on each other.
# Gradients are exact, so it costs steps and no accuracy.
_RIDGES = {torch.float32: 1e-6, torch.float64: 1e-13}


def _no_rows() -> Ints:
    return np.empty(0, np.int64)


@dataclass
class Question:
    """A main question in progress.

    Attributes:
        number: Its place among the main questions.
        lam: The current weight of |x|_1; it falls to the solver's lam where signs are free.
        target: b, (d,).
        excluded: Rows of the pool that it must not use.
        residual: b - A x, (d,).
        columns: Rows of the pool with x != 0, (s,).
        weights: x of these columns, (s,): the minimum over the last working set.
        gram: Products of these columns with each other, (s, s).
        inverse: The inverse of `gram`, (s, s).
        rejected: Rows of the last working set with x = 0.
        largest_inside: The largest correlation of a column of the last working set with the
            residual.
        rounds: Passes over the pool so far.
        certifying: Whether x must be as accurate as a certificate needs it.
        needs_float32: Whether products with the pool must be in float32 while certifying.
        gram_in_float64: Whether the Gram matrix is computed in float64.
        failures: How often its working set ended without the required accuracy.
    """

    number: int
    lam: float
    target: Floats
    excluded: Ints
    residual: Floats
    columns: Ints = field(default_factory=_no_rows)
    weights: Floats = field(default_factory=lambda: np.empty(0))
    gram: Floats = field(default_factory=lambda: np.empty((0, 0)))
    inverse: Floats = field(default_factory=lambda: np.empty((0, 0)))
    rejected: Ints = field(default_factory=_no_rows)
    largest_inside: float = 0.0
    rounds: int = 0
    certifying: bool = False
    needs_float32: bool = False
    gram_in_float64: bool = False
    failures: int = 0


class WorkingSet:
    """Solves one question after another; each thread has its own.

    Of the n rows at hand, the first `count` are in the model. Only their columns are copied from
    the pool; the others are candidates.

    Args:
        pool: All columns.
        positive: Whether x >= 0; otherwise signs are free.
    """

    def __init__(self, pool: PoolProducts, *, positive: bool) -> None:
        self.pool, self.positive = pool, positive
        self.gram = self.inverse = np.empty((0, 0))

    def improve(self, question: Question, candidates: Ints, promise: NDArray[np.float32]) -> None:
        """Moves a question to the minimum over its columns and the candidates that it needs.

        It computes the gradients of all candidates after each step: that is cheaper than a pass
        over the pool. `promise` (n,) are the candidates' correlations, by which the first
        of them are chosen.
        """
        self._begin(question, candidates, promise)
        idle_steps, restarted = 0, False
        for step in range(_MAX_STEPS):
            before = self.count
            # The model's gradients carry the rounding of its Gram matrix. A certificate needs exact
            # ones.
            first = 0 if question.certifying or not step else before
            fault = self._add_columns(_COLUMNS_PER_STEP, first=first, known=not step)
            new = self.count - before
            idle_steps = idle_steps + 1 if not new else 0
            few_new = not new or (new <= _MIN_NEW_COLUMNS and not question.certifying)
            if step and few_new and fault <= self._tolerated():
                break
            stalled = idle_steps > _MAX_IDLE_STEPS
            if stalled and question.gram_in_float64 and not restarted:
                # The columns in use depend on each other, and the inverse is rounding noise. A
                # path from zero does not let such columns enter together.
                self._restart()
                self._add_columns(0)
                idle_steps, restarted = 0, True
            elif not question.gram_in_float64 and (stalled or self._is_ill_conditioned()):
                self._repeat_in_float64(before)
            if self.count > before:
                self._multiply(before)
            self._solve()
        else:
            # No step was accurate enough.
            question.failures += question.certifying
            if not np.linalg.norm(question.residual) <= np.linalg.norm(question.target):
                self._restart()  # x is worse than zero, or nan
            self._add_columns(0)
        self._end()

    def _tolerated(self) -> float:
        """The violation of the optimality conditions at which a step is accurate enough.

        It is relative to lam.
        """
        question = self.question
        coarse = _COARSE_ERROR * np.linalg.norm(question.residual) / question.lam
        return SLACK if question.certifying else max(SLACK, float(coarse))

    def _is_ill_conditioned(self) -> bool:
        """Whether there are too many columns for a Gram matrix in float32."""
        return self.count > _GRAM_FLOAT64_SHARE * len(self.question.target)

    def _begin(self, question: Question, candidates: Ints, promise: NDArray[np.float32]) -> None:
        """Loads a question and its candidates."""
        self.question = question
        self.rows = np.concatenate([question.columns, candidates])
        self.columns = self.pool.columns(question.columns, len(self.rows))
        size, total = len(question.columns), len(self.rows)
        # The question brings its own products, so the old contents are not copied.
        if len(self.gram) < total:
            self.gram, self.inverse = np.empty((2, total, total))
        self.gram[:size, :size], self.inverse[:size, :size] = question.gram, question.inverse
        self.x, self.gradient = np.zeros(total), np.empty(total)
        # Correlations of the pass stand in for the gradients of candidates.
        self.x[:size], self.gradient[size:] = question.weights, promise
        self.count, self.inside = size, np.arange(size)

    def _add_columns(self, max_new: int, first: int = 0, known: bool = False) -> float:
        """Adds up to `max_new` candidates to the model; returns the violation of the conditions.

        The columns before `first` keep the gradients of the model, and if `known`, the candidates
        keep those of `promise`.
        """
        # The residual is centred where the problem has centred columns, so they need not be.
        self.count, self.question.largest_inside, fault = add_violating_columns(
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
            max_new,
            known,
        )
        return fault

    def _multiply(self, first: int) -> None:
        """Writes the Gram matrix from column `first` on."""
        columns = self.columns[: self.count]
        in_float64 = self.question.gram_in_float64
        products = self.pool.gram(columns.double() if in_float64 else columns, first)
        extend_gram(self.gram, products.numpy(), first, _RIDGES[products.dtype])

    def _repeat_in_float64(self, count: int) -> None:
        """Computes the Gram matrix of the first `count` columns again, in float64."""
        self.question.gram_in_float64 = True
        after, self.count = self.count, count
        if count:
            self._multiply(0)
            invert_gram(self.gram, self.inside, self.inverse)
        self.count = after

    def _restart(self) -> None:
        """Sets x to zero."""
        self.x[:], self.inside = 0, self.inside[:0]
        self.question.residual = self.question.target

    def _solve(self) -> None:
        """Moves x to the minimum of the model."""
        question, count = self.question, self.count
        if not count:
            return
        inside = np.empty(count, np.int64)
        inside[: len(self.inside)] = self.inside
        size = solve_active_set(
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
        question.residual = residual_of(question.target, self.columns.numpy(), self.x, self.inside)
        # One subtraction here replaces the centring of every column.
        if self.pool.centred:
            question.residual -= question.residual.mean()

    def _end(self) -> None:
        """Stores the solution and its products in the question, for the next working set."""
        question, size = self.question, len(self.inside)
        question.columns, question.weights = self.rows[self.inside], self.x[self.inside]
        question.rejected = self.rows[self.x == 0]
        question.gram = submatrix(self.gram, self.inside)
        question.inverse = self.inverse[:size, :size].copy()
