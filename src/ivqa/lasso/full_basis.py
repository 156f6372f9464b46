"""Solves what the working sets leave uncertified, such as solutions with a column a dimension.

The same scheme with other means: columns that once joined a question's working set stay, its
solver keeps orthogonal factors, and the products with the pool are float64. The weight lam falls
to its value step by step, and each step begins with the columns of the one before: started at a
small lam, most columns that enter leave again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ivqa.lasso.active_set import rest
from ivqa.lasso.certificate import relative_gaps
from ivqa.lasso.orthogonal_basis import TOLERANCE, solve_by_factors
from ivqa.lasso.pool_products import PoolProducts
from ivqa.lasso.threads import SingleThreads
from ivqa.lasso.working_set import Question, Rows, Vector

# Main questions that share a pass over the pool.
TOGETHER = 128
# Passes after which a question ends with the gap that it has.
_MOST_ROUNDS = 100
# By what lam falls at a time.
_DECAY = 10.0
# As many missed columns do not keep lam from falling, or this share of those in use.
_FEW, _FEW_OF = 4, 1 / 16
# Columns that a pass brings: as many as there are dimensions, within these.
_LEAST, _MOST = 192, 1024
# Pivots of a question: multiples of the largest basis, within a number of multiplications.
_PIVOTS, _MULTIPLICATIONS = 1000, 5e11
# A column whose part outside those before it is shorter, relative to itself, is left out at first.
_DEPENDENT = 1e-9


@dataclass
class _Hard:
    """A question on its way.

    lam: the weight of |x|_1 on its way. rows: its working set. y: residual over lam, (d,).
    """

    question: Question
    rows: Rows
    lam: float = 0.0
    y: Vector = field(default_factory=lambda: np.empty(0))
    pivots: int = 0
    rounds: int = 0


class FullBasis:
    """Solves main questions exactly, whatever their number of columns.

    Args:
        pool: the columns.
        lam: weight of the l1 norm.
        positive: whether x >= 0; otherwise signs are free.
    """

    def __init__(self, pool: PoolProducts, lam: float, *, positive: bool) -> None:
        self.pool, self.lam, self.positive = pool, lam, positive
        self._joining = min(max(_LEAST, pool.dimensions), _MOST, len(pool))

    def solve(self, questions: Sequence[Question]) -> Iterator[tuple[Question, float]]:
        """Solves questions from x = 0 on; working sets begin with the columns that they know.

        Yields:
            Each question, solved in place, and its relative duality gap over the whole pool.
        """
        for start in range(0, len(questions), TOGETHER):
            together = questions[start : start + TOGETHER]
            yield from self._solve([self._begin(one) for one in together])

    def _solve(self, flight: list[_Hard]) -> Iterator[tuple[Question, float]]:
        with SingleThreads() as threads:
            while flight:
                threads.share(self._improve, flight)
                directions = torch.from_numpy(np.stack([one.lam * one.y for one in flight]))
                values, rows = self._pass(flight, directions)
                gaps = self._gaps(flight, directions, values[:, 0])
                going = []
                for at, one in enumerate(flight):
                    one.rounds += 1
                    one.question.rounds += 1
                    if self._join(one, values[at].numpy(), rows[at].numpy()):
                        going.append(one)
                    else:
                        yield one.question, float(gaps[at])
                flight = going

    def _begin(self, question: Question) -> _Hard:
        rows = np.union1d(question.columns, question.rejected)
        question.columns, question.weights = rows[:0], np.empty(0)
        correlations = self.pool.rows[torch.from_numpy(rows)].double().numpy() @ question.target
        largest = np.abs(correlations).max() if len(rows) else np.linalg.norm(question.target)
        return _Hard(question, rows, max(self.lam, float(largest) / _DECAY))

    def _improve(self, one: _Hard) -> None:
        """Moves a question to the minimum over its working set."""
        question, room = one.question, min(len(one.rows), self.pool.dimensions)
        if not room:
            one.y, question.residual = question.target / one.lam, question.target
            return
        columns = self.pool.columns(one.rows, len(one.rows)).numpy()
        place = {row: at for at, row in enumerate(one.rows.tolist())}
        inside = np.array([place[row] for row in question.columns.tolist()], dtype=np.int64)
        kept, factors = self._factors(columns, inside, question.weights)
        size = len(kept)
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
            self.pool.means,
            basis,
            signs,
            x,
            q,
            r,
            one.y,
            size,
            self._most_pivots(room) - one.pivots,
        )
        one.pivots += pivots
        coefficients = np.zeros(len(one.rows))
        coefficients[basis[:size]] = signs[:size] * x[:size]
        question.columns, question.weights = one.rows[basis[:size]], signs[:size] * x[:size]
        question.residual = rest(question.target, columns, coefficients, basis[:size])
        if self.pool.means:
            question.residual -= question.residual.mean()

    def _most_pivots(self, room: int) -> int:
        most = _MULTIPLICATIONS / (max(room, 1) * self.pool.dimensions)
        return int(min(_PIVOTS * room, most))

    def _factors(
        self, columns: NDArray[np.float32], inside: Rows, weights: Vector
    ) -> tuple[Rows, tuple[Vector, Vector]]:
        """Which of the columns inside are kept, independent ones, and their factors q and r."""
        kept = np.argsort(-np.abs(weights), kind="stable")[: self.pool.dimensions]
        kept = kept[weights[kept] != 0]
        while True:
            basis = columns[inside[kept]].astype(np.float64)
            if self.pool.means:
                basis -= basis.mean(axis=1, keepdims=True)
            basis *= np.sign(weights[kept])[:, None]
            q, r = np.linalg.qr(basis.T)
            fine = np.abs(np.diag(r)) > _DEPENDENT * np.linalg.norm(basis, axis=1)
            if fine.all():
                return kept, (q.T, r)
            kept = kept[fine]

    def _pass(self, flight: list[_Hard], directions: Tensor) -> tuple[Tensor, Tensor]:
        """The largest correlations with the directions in the whole pool, and their rows."""
        banned = [one.question.banned for one in flight]
        which = np.repeat(np.arange(len(flight)), [len(rows) for rows in banned])
        masked = torch.from_numpy(which), torch.from_numpy(np.concatenate(banned))
        return self.pool.exact_largest(
            directions, self._joining, masked, magnitude=not self.positive
        )

    def _gaps(self, flight: list[_Hard], directions: Tensor, largest: Tensor) -> Tensor:
        questions = [one.question for one in flight]
        norms = torch.tensor([float(np.abs(one.weights).sum()) for one in questions]).double()
        target = torch.from_numpy(np.stack([one.target for one in questions]))
        residual = torch.from_numpy(np.stack([one.residual for one in questions]))
        return relative_gaps(target, residual, norms, directions, largest, self.lam)

    def _join(self, one: _Hard, values: Vector, rows: Rows) -> bool:
        """Enlarges the working set by columns over lam; whether the question has to go on."""
        room = self.pool.dimensions
        if one.rounds >= _MOST_ROUNDS or one.pivots >= self._most_pivots(room):
            return False
        missed = np.setdiff1d(rows[values > one.lam * (1 + 2 * TOLERANCE)], one.rows)
        one.rows = np.concatenate([one.rows, missed])
        if one.lam == self.lam:
            return len(missed) > 0
        if len(missed) <= max(_FEW, _FEW_OF * len(one.question.columns)):
            one.lam = max(self.lam, one.lam / _DECAY)
        return True
