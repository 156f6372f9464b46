"""Solves what the working sets leave uncertified: solutions with as many columns as dimensions.

The scheme is the same, but columns that joined a question's working set stay, the solver keeps
orthogonal factors, and products with the pool are in float64. lam falls to its value in steps, and
each step starts with the columns of the one before. With a small lam from the start, most columns
that enter would leave again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ivqa.lasso.certificate import relative_gaps
from ivqa.lasso.column_products import residual_of
from ivqa.lasso.orthogonal_basis import TOLERANCE, solve_by_factors
from ivqa.lasso.pool_products import PoolProducts
from ivqa.lasso.threads import SingleThreads
from ivqa.lasso.working_set import Question, Rows, Vector


@dataclass
class _Progress:
    """A question in the full basis.

    Attributes:
        question: The question, updated.
        rows: Its working set, (n,).
        lam: The current weight of |x|_1.
        y: The residual over lam, (d,).
        pivots: Pivots so far.
        rounds: Passes over the pool so far.
    """

    question: Question
    rows: Rows
    lam: float = 0.0
    y: Vector = field(default_factory=lambda: np.empty(0))
    pivots: int = 0
    rounds: int = 0


class FullBasis:
    """Solves main questions with any number of columns.

    Args:
        pool: All columns, and the settings.
        lam: Weight of |x|_1.
        positive: Whether x >= 0; otherwise signs are free.
    """

    def __init__(self, pool: PoolProducts, lam: float, *, positive: bool) -> None:
        self.pool, self.lam, self.positive = pool, lam, positive
        self.settings = pool.settings
        self._columns_per_pass = min(
            max(self.settings.full_basis_min_columns, pool.dimensions),
            self.settings.full_basis_max_columns,
            len(pool),
        )

    def solve(self, questions: Sequence[Question]) -> Iterator[tuple[Question, float]]:
        """Solves questions from x = 0; working sets start with the columns that they had.

        Args:
            questions: Updated.

        Yields:
            Each question and its relative duality gap over the whole pool.
        """
        step = self.settings.full_basis_questions
        for start in range(0, len(questions), step):
            yield from self._solve([self._begin(one) for one in questions[start : start + step]])

    def _solve(self, active: list[_Progress]) -> Iterator[tuple[Question, float]]:
        with SingleThreads() as threads:
            while active:
                threads.share(self._improve, active)
                directions = torch.from_numpy(np.stack([one.lam * one.y for one in active]))
                values, rows = self._pass(active, directions)
                gaps = self._gaps(active, directions, values[:, 0])
                unfinished = []
                for at, one in enumerate(active):
                    one.rounds += 1
                    one.question.rounds += 1
                    if self._join(one, values[at].numpy(), rows[at].numpy()):
                        unfinished.append(one)
                    else:
                        yield one.question, float(gaps[at])
                active = unfinished

    def _begin(self, question: Question) -> _Progress:
        """Starts a question at a lam one step below its largest correlation."""
        rows = np.union1d(question.columns, question.rejected)
        question.columns, question.weights = rows[:0], np.empty(0)
        # The target is centred where the problem is, so the rows need not be.
        correlations = self.pool.rows[torch.from_numpy(rows)].double().numpy() @ question.target
        largest = np.abs(correlations).max() if len(rows) else np.linalg.norm(question.target)
        lam = max(self.lam, float(largest) / self.settings.full_basis_lam_step)
        return _Progress(question, rows, lam)

    def _improve(self, one: _Progress) -> None:
        """Moves a question to the minimum over its working set."""
        question, room = one.question, min(len(one.rows), self.pool.dimensions)
        if not room:
            one.y, question.residual = question.target / one.lam, question.target
            return
        columns = self.pool.columns(one.rows, len(one.rows)).numpy()
        # Row of the pool -> position in the working set.
        place = {row: at for at, row in enumerate(one.rows.tolist())}
        inside = np.array([place[row] for row in question.columns.tolist()], dtype=np.int64)
        kept, factors = self._factors(columns, inside, question.weights)
        size = len(kept)
        # Buffers for a basis of `room` columns, of which the first `size` are set.
        basis, signs, x = np.zeros(room, np.int64), np.ones(room), np.zeros(room)
        q, r = np.zeros((room, self.pool.dimensions)), np.zeros((room, room))
        basis[:size], weights = inside[kept], question.weights[kept]
        signs[:size], x[:size] = np.sign(weights), np.abs(weights)
        q[:size], r[:size, :size] = factors
        one.y = np.empty(self.pool.dimensions)
        size, pivots = solve_by_factors(
            columns,
            question.target,
            one.lam,
            self.positive,
            self.pool.centred,
            basis,
            signs,
            x,
            q,
            r,
            one.y,
            size,
            self._max_pivots(room) - one.pivots,
        )
        one.pivots += pivots
        coefficients = np.zeros(len(one.rows))
        coefficients[basis[:size]] = signs[:size] * x[:size]
        question.columns, question.weights = one.rows[basis[:size]], signs[:size] * x[:size]
        question.residual = residual_of(question.target, columns, coefficients, basis[:size])
        # The columns were not centred, so the residual is.
        if self.pool.centred:
            question.residual -= question.residual.mean()

    def _max_pivots(self, room: int) -> int:
        """Pivots that a question with a basis of up to `room` columns may take."""
        # A pivot takes about room * d multiplications.
        limit = self.settings.max_multiplications / (max(room, 1) * self.pool.dimensions)
        return int(min(self.settings.max_pivots_per_column * room, limit))

    def _factors(
        self, columns: NDArray[np.float32], inside: Rows, weights: Vector
    ) -> tuple[Rows, tuple[Vector, Vector]]:
        """The independent columns among those inside, by weight, and their factors q and r."""
        kept = np.argsort(-np.abs(weights), kind="stable")[: self.pool.dimensions]
        kept = kept[weights[kept] != 0]
        while True:
            basis = columns[inside[kept]].astype(np.float64)
            if self.pool.centred:
                basis -= basis.mean(axis=1, keepdims=True)
            basis *= np.sign(weights[kept])[:, None]
            # q is (d, s) and r (s, s). |r_jj| is the length of column j orthogonal to the columns
            # before it, which have larger weights.
            q, r = np.linalg.qr(basis.T)
            smallest = self.settings.dependent_share * np.linalg.norm(basis, axis=1)
            independent = np.abs(np.diag(r)) > smallest
            if independent.all():
                return kept, (q.T, r)
            kept = kept[independent]

    def _pass(self, active: list[_Progress], directions: Tensor) -> tuple[Tensor, Tensor]:
        """The largest correlations with the directions in the whole pool, and their rows."""
        excluded = [one.question.excluded for one in active]
        which = np.repeat(np.arange(len(active)), [len(rows) for rows in excluded])
        masked = torch.from_numpy(which), torch.from_numpy(np.concatenate(excluded))
        return self.pool.exact_largest(
            directions, self._columns_per_pass, masked, magnitude=not self.positive
        )

    def _gaps(self, active: list[_Progress], directions: Tensor, largest: Tensor) -> Tensor:
        """Relative duality gaps over the whole pool, (B,) float64."""
        questions = [one.question for one in active]
        norms = torch.tensor([float(np.abs(one.weights).sum()) for one in questions]).double()
        target = torch.from_numpy(np.stack([one.target for one in questions]))
        residual = torch.from_numpy(np.stack([one.residual for one in questions]))
        return relative_gaps(target, residual, norms, directions, largest, self.lam)

    def _join(self, one: _Progress, values: Vector, rows: Rows) -> bool:
        """Adds columns over lam to the working set; returns whether the question continues."""
        settings, room = self.settings, self.pool.dimensions
        if one.rounds >= settings.full_basis_rounds or one.pivots >= self._max_pivots(room):
            return False
        missed = np.setdiff1d(rows[values > one.lam * (1 + 2 * TOLERANCE)], one.rows)
        one.rows = np.concatenate([one.rows, missed])
        # At the final lam, a pass that misses nothing is the end.
        if one.lam == self.lam:
            return len(missed) > 0
        used = len(one.question.columns)
        if len(missed) <= max(settings.few_missed, settings.few_missed_share * used):
            one.lam = max(self.lam, one.lam / self.settings.full_basis_lam_step)
        return True
