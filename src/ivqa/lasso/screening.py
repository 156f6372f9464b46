"""Passes over the pool: they find the columns that working sets miss, or certify that none is.

A pass multiplies one direction of each question with all columns. Where signs are restricted, its
products may be rough (bfloat16): bounds on their errors tell which of them are undecided, and only
these are computed again in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ivqa.lasso.certificate import relative_gaps
from ivqa.lasso.pool_products import PoolProducts
from ivqa.lasso.working_set import Question

# Columns that a pass adds to a question's candidates: 1/512 of the pool within these limits. A pass
# over a larger pool takes longer, so fewer passes with more columns are faster; the gradients of
# all candidates are computed after each step.
_MIN_COLUMNS_PER_PASS, _MAX_COLUMNS_PER_PASS = 192, 384
# How far below lam the correlation of a candidate may be, as a share of the residual's norm. Some
# of these columns exceed lam once others have entered.
_MARGIN = 0.003
# The longest ranking whose columns beyond the support come from the last pass. A question with a
# longer ranking gets one more product with the pool at its end.
_MAX_LISTED = 64
# Correlations of a question that are computed again, one by one, where rounding hides whether they
# exceed lam. More of them need another pass.
_MAX_UNDECIDED = 512
# How much longer the list gets where more correlations than listed are undecided in float32, as
# with many copies of a column.
_RELISTING_FACTOR = 16


@dataclass
class PassResult:
    """What a pass found for B questions, of the columns outside their working sets.

    Attributes:
        directions: What the columns were correlated with, (B, d) float64.
        values: The largest correlations, (B, m) float32, largest first, -inf where too few count.
        rows: Their rows in the pool, (B, m) int64.
        bounds: Bounds on the errors of correlations of about lam, (B,) float32.
    """

    directions: Tensor
    values: Tensor
    rows: Tensor
    bounds: Tensor

    def of(self, which: Sequence[int]) -> "PassResult":
        """A copy with some of the questions, by their positions."""
        index = list(which)
        return PassResult(
            self.directions[index], self.values[index], self.rows[index], self.bounds[index]
        )


class Screening:
    """Passes over the pool for many questions at a time.

    Args:
        pool: All columns.
        lam: Weight of |x|_1.
        positive: Whether x >= 0; otherwise signs are free.
        dtype: Number format of the products that look for missed columns, float32 or bfloat16.
    """

    def __init__(
        self, pool: PoolProducts, lam: float, *, positive: bool, dtype: torch.dtype
    ) -> None:
        self.pool, self.lam, self.positive, self.dtype = pool, lam, positive, dtype
        share = max(_MIN_COLUMNS_PER_PASS, min(len(pool) // 512, _MAX_COLUMNS_PER_PASS))
        self.columns_per_pass = min(share, len(pool))

    def search(self, questions: Sequence[Question], k: int) -> PassResult:
        """Correlates all columns with the directions of B questions, and counts their rounds.

        Columns that are certainly below lam are left out, unless a ranking of k needs them.
        """
        directions = self._directions(questions)
        undecided = _MAX_UNDECIDED if self.positive else 0
        listed = max(self.columns_per_pass, min(k, _MAX_LISTED), undecided)
        listed = min(listed, len(self.pool))
        found = PassResult(
            directions,
            torch.empty(len(questions), listed),
            torch.empty(len(questions), listed, dtype=torch.int64),
            torch.empty(len(questions)),
        )
        least = torch.full((len(questions),), -torch.inf)
        for at, question in enumerate(questions):
            question.rounds += 1
            if question.certifying and len(question.columns) < k:
                # The ranking beyond the support is sorted by these products.
                question.needs_float32 = True
            elif self.positive:
                least[at] = self.lam - self.margin(question)
        dtypes = [self._dtype_for(question) for question in questions]
        for dtype in set(dtypes):
            part = [at for at, one in enumerate(dtypes) if one == dtype]
            found.bounds[part] = self.pool.error_bound(directions[part], dtype, self.lam)
            # The error bound lowers the floor, so that rounding hides no column over it.
            found.values[part], found.rows[part] = self.largest(
                [questions[at] for at in part],
                directions[part],
                listed,
                dtype,
                least=least[part] - found.bounds[part],
            )
        return found

    def gaps(self, questions: Sequence[Question], found: PassResult) -> NDArray[np.float64]:
        """Relative duality gaps of B questions over the whole pool, (B,).

        inf for questions that are not certifying and where their last pass leaves too much
        undecided. Correlations that had to be computed again in float64 replace those in `found`.
        """
        gaps = np.full(len(questions), np.inf)
        part = [at for at, question in enumerate(questions) if question.certifying]
        if part:
            certifying = [questions[at] for at in part]
            outside, found.values[part] = self._largest_outside(certifying, found.of(part))
            residual = found.directions[part]
            target = torch.from_numpy(np.stack([question.target for question in certifying]))
            norms = torch.from_numpy(np.array([np.abs(one.weights).sum() for one in certifying]))
            inside = torch.tensor([one.largest_inside for one in certifying], dtype=torch.float64)
            largest = torch.maximum(outside, inside)
            known = relative_gaps(target, residual, norms, residual, largest, self.lam)
            gaps[part] = known.where(outside.isfinite(), torch.inf).numpy()
        return gaps

    def largest(
        self,
        questions: Sequence[Question],
        directions: Tensor,
        number: int,
        dtype: torch.dtype,
        *,
        least: Tensor | None = None,
        signed: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """The largest correlations of columns outside the solutions of B questions.

        Their columns and excluded rows do not count.

        Args:
            directions: (B, d) float64.
            number: How many correlations to return for each question.
            least: The value that a correlation must exceed to count, (B,).
            signed: Whether signs count even if the problem's signs are free.

        Returns:
            Values (B, m) float32, largest first, and rows (B, m) int64.
        """
        # Columns of the solution are masked: their exact correlations are in `largest_inside`.
        masked = [np.concatenate([one.columns, one.excluded]) for one in questions]
        which = np.repeat(np.arange(len(questions)), [len(rows) for rows in masked])
        return self.pool.largest(
            directions,
            number,
            (torch.from_numpy(which), torch.from_numpy(np.concatenate(masked))),
            magnitude=not (self.positive or signed),
            dtype=dtype,
            least=least,
        )

    def margin(self, question: Question) -> float:
        """How far below lam the correlation of a candidate may be."""
        if not self.positive:
            return 0.0
        return _MARGIN * float(np.linalg.norm(question.residual))

    def _directions(self, questions: Sequence[Question]) -> Tensor:
        """What the next pass correlates columns with, (B, d) float64: the residuals.

        At x = 0 thousands of columns correlate with the residual and explain the same part of it.
        What a sample of the pool does not explain tells better which of them are needed.
        """
        residual = stacked_residuals(questions)
        if self.positive:
            new = [at for at, question in enumerate(questions) if not question.rounds]
            residual[new] = self.pool.unexplained(residual[new])
        return residual

    def _dtype_for(self, question: Question) -> torch.dtype:
        """The number format of a question's next products."""
        return torch.float32 if question.certifying and question.needs_float32 else self.dtype

    def _largest_outside(
        self, questions: Sequence[Question], found: PassResult
    ) -> tuple[Tensor, Tensor]:
        """The largest correlation outside the working sets, (B,) float64, never too small.

        Correlations that may exceed lam are computed in float64, unless one certainly exceeds it.
        If more are undecided than listed, the result is inf and the next products are in float32.
        Also returns the values (B, m) with those that were computed again.
        """
        values, rows, bounds = found.values, found.rows, found.bounds
        upper = values + bounds[:, None]
        undecided, sure = upper > self.lam, values[:, 0] - bounds > self.lam
        # Where one value exceeds lam beyond doubt, its upper bound is enough.
        largest = torch.where(sure, upper[:, 0], 0.0).double()
        if values.shape[1] < len(self.pool):
            # More columns than listed may be undecided, such as copies of the columns in use.
            for at in (undecided[:, -1] & ~sure).nonzero()[:, 0].tolist():
                largest[at] = self._largest_of_a_longer_list(questions[at], found.of([at]))
                sure[at] = True
        which, place = (undecided & ~sure[:, None]).nonzero(as_tuple=True)
        exact = self.pool.products(rows[which, place], found.directions, which)
        exact = exact if self.positive else exact.abs()
        values[which, place] = exact.float()
        return largest.scatter_reduce(0, which, exact, "amax"), values

    def _largest_of_a_longer_list(self, question: Question, found: PassResult) -> float:
        """The largest correlation outside of one question, from a longer list in float32.

        If that list was not in float32, it is inf, and the next pass is in float32.
        """
        if self._dtype_for(question) != torch.float32:
            question.needs_float32 = True
            return torch.inf
        number = min(_RELISTING_FACTOR * found.values.shape[1], len(self.pool))
        longer = self.largest([question], found.directions, number, torch.float32)
        largest, _ = self._largest_outside(
            [question], PassResult(found.directions, *longer, found.bounds)
        )
        return float(largest)


def stacked_residuals(questions: Sequence[Question]) -> Tensor:
    """The residuals of B questions as one matrix, (B, d) float64."""
    return torch.from_numpy(np.stack([question.residual for question in questions]))
