"""The solver for a GPU: hundreds of questions at a time, with the pool and all steps on the device.

As on the processor, each question is solved in a working set of columns, and passes over the pool
find the columns that it misses. Here a step is a few operations on the working sets of all
questions: padded batches of Gram matrices and of their Cholesky factors. The host waits for the
device a few times a step, to learn how large the next batch is, and never for a single question.

Passes are in float32, the first ones in bfloat16 where that is faster. What happens inside working
sets is in float64. A pass is in float64 as well where rounding hides whether columns are missed,
for instance with many copies of a column.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ivqa.lasso.certificate import relative_gaps
from ivqa.lasso.column_products import SLACK
from ivqa.lasso.pool_products import PoolProducts
from ivqa.lasso.screening import Screening

# Passes after which questions end uncertified. Real questions need up to 16 where x >= 0, and 36
# where signs are free. Among 20,000 random vectors a question with as many columns as dimensions
# needs up to 290.
_MAX_ROUNDS = 300
_SCREENING_ROUNDS = 2  # passes that only look for columns, in the number format for screening
_COLUMNS_PER_PASS = 128  # the most columns that a pass adds to a working set
_FEW_MISSED, _FEW_MISSED_SHARE = 4, 1 / 16  # as on the processor: then lam falls
_LAM_STEP = 3.0  # the factor by which lam falls where signs are free
# How far below lam the correlation of a candidate may be, as a share of the residual's norm.
_MARGIN = 0.003
_ENTERING = 32  # columns that enter an active set at a time
_MAX_STEPS = 300  # Cholesky factors of one question between two passes
_HALVINGS = 6  # step lengths 1, 1/2, ... that are compared where coefficients change their sign
# Relative increase of the diagonal of Gram matrices, so that columns that depend on each other have
# a Cholesky factor. Equal columns share their weight by it. Gradients are exact, so it costs steps
# and no accuracy.
_RIDGE = 1e-11
_PRODUCTS = 2**27  # numbers in a chunk of the pool or of its products
_GATHERED = 2**28  # numbers in the gathered columns of some working sets


@dataclass
class Batch:
    """B questions in progress, or finished ones with their solutions.

    Attributes:
        number: Their places among the main questions, (B,) int64.
        target: b, (B, d) float64.
        excluded: Rows of the pool that they must not use, (B, e) int64, padded with -1.
        residual: b - A x, (B, d) float64.
        columns: Rows of the pool with x != 0, (B, s) int64, padded with -1.
        weights: x of these columns, (B, s) float64, padded with 0.
        lam: The current weights of |x|_1, (B,) float64.
        gap: Relative duality gaps over the whole pool, (B,) float64.
        values: The largest correlations of other columns in the last pass, (B, m).
        rows: Their rows in the pool, (B, m) int64.
    """

    number: Tensor
    target: Tensor
    excluded: Tensor
    residual: Tensor
    columns: Tensor
    weights: Tensor
    lam: Tensor
    gap: Tensor
    values: Tensor
    rows: Tensor

    def of(self, which: Tensor) -> "Batch":
        """Some of the questions, by their positions."""
        return Batch(*(getattr(self, field.name)[which] for field in fields(self)))


class BatchedSolver:
    """Solves LASSO problems over a pool that is copied to a device.

    Args:
        pool: All columns.
        screening: The problem, and the number format of the first passes.
        device: Where everything is computed. The pool must fit into its memory.
        tolerance: The largest gap of a certified solution.

    Raises:
        ValueError: The pool does not fit.
    """

    def __init__(
        self, pool: PoolProducts, screening: Screening, device: str, tolerance: float
    ) -> None:
        self.pool, self.device, self.tolerance = pool, torch.device(device), tolerance
        self.lam, self.positive = screening.lam, screening.positive
        self.screening = screening.dtype
        try:
            self.rows = pool.rows.to(device)
        except torch.OutOfMemoryError as error:
            size = f"{pool.rows.nbytes / 1e9:.1f} GB"
            raise ValueError(f"the pool of {size} does not fit on {device}; use cpu") from error

    def rank(self, targets: Tensor, excluded: Tensor, k: int) -> tuple[Tensor, ...]:
        """Ranks the pool for B questions.

        Args:
            targets: b, (B, d) float64; centred where the problem has centred columns.
            excluded: Rows of the pool that each must not use, (B, e) int64, padded with -1.
            k: Length of the rankings.

        Returns:
            On the CPU: indices (B, k) int64, scores (B, k) float32, gaps (B,) float64, numbers of
            positive scores (B,) int64, and passes (B,) int64.
        """
        size = len(targets)
        indices = torch.zeros(size, k, dtype=torch.int64, device=self.device)
        scores, rounds = torch.zeros_like(indices).float(), torch.zeros_like(indices[:, 0])
        gaps = torch.zeros_like(rounds).double()
        for done, passes in self.solve(targets, excluded, k):
            indices[done.number], scores[done.number] = self._best(done, k)
            gaps[done.number], rounds[done.number] = done.gap, passes
        support = (scores > 0).sum(dim=1)
        return tuple(one.cpu() for one in (indices, scores, gaps, support, rounds))

    def solve(self, targets: Tensor, excluded: Tensor, k: int) -> Iterator[tuple[Batch, int]]:
        """Solves B questions, see `rank`; yields those that a pass finished, and its number."""
        targets, excluded = targets.to(self.device), excluded.to(self.device)
        rows, values = excluded[:, :0], targets[:, :0]
        number = torch.arange(len(targets), device=self.device)
        lam = torch.full_like(targets[:, 0], self.lam)
        batch = Batch(number, targets, excluded, targets, rows, values, lam, lam / 0, values, rows)
        precise = False
        for passes in range(1, _MAX_ROUNDS + 1):
            first = passes <= _SCREENING_ROUNDS
            dtype = torch.float64 if precise else self.screening if first else torch.float32
            columns, gram, gradient, hidden = self._search(batch, k, dtype, passes)
            precise = not first and bool(hidden.any())
            done = batch.gap <= self.tolerance
            finished, left = done.nonzero()[:, 0], (~done).nonzero()[:, 0]
            if len(finished):
                yield batch.of(finished), passes
            if not len(left):
                return
            batch = batch.of(left)
            self._improve(batch, columns[left], gram[left], gradient[left])
        yield batch, _MAX_ROUNDS

    def _search(
        self, batch: Batch, k: int, dtype: torch.dtype, passes: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """A pass over the pool, which sets the gaps, the lists and the next lam.

        Returns the columns of the new working sets (B, p), padded with -1, their Gram matrices
        (B, p, p), the gradients A^T r (B, p), and whether rounding hides missed columns, (B,).
        """
        residual, norm = batch.residual, batch.residual.norm(dim=1)
        sampled = self.positive and passes == 1
        direction = self.pool.unexplained(residual) if sampled else residual
        listed = min(max(k, _COLUMNS_PER_PASS + 1), len(self.rows))
        values, rows = self._largest(batch, direction, listed, dtype, magnitude=not self.positive)
        bound, error = torch.zeros_like(norm), torch.zeros_like(norm)
        if dtype != torch.float64:
            bound = self.pool.error_bound(direction, dtype, self.lam).double()
            error = self.pool.typical_error(dtype) * norm
        batch.values, batch.rows, solved = values, rows, batch.lam
        if not self.positive:
            missed = (values > (batch.lam + error)[:, None]).sum(dim=1)
            used = (batch.weights != 0).sum(dim=1)
            falls = (missed <= (_FEW_MISSED_SHARE * used).clamp_min(_FEW_MISSED)) | (passes == 1)
            before = values[:, 0] if passes == 1 else solved
            batch.lam = (before / _LAM_STEP).clamp_min(self.lam).where(falls, solved)
        floor = batch.lam - error - (_MARGIN * norm if self.positive else 0)
        new = values > floor[:, None]
        width = int(new.sum(dim=1).amax().clamp(1, _COLUMNS_PER_PASS))
        new[:, width:] = False
        columns = torch.cat([batch.columns, rows.where(new, -1)[:, :width]], dim=1)
        gradient = residual.new_empty(columns.shape)
        gram = residual.new_empty(*columns.shape, columns.shape[1])
        for at, found in self._gathered(columns):
            torch.bmm(found, found.mT, out=gram[at])
            gradient[at] = torch.bmm(found, residual[at, :, None])[:, :, 0]
        size = gradient if self.positive else gradient.abs()
        size = size.where(columns >= 0, -torch.inf)
        others = values.where(~new, -torch.inf).amax(dim=1) + bound
        largest = torch.maximum(size.amax(dim=1), others)
        norms = batch.weights.abs().sum(dim=1)
        gap = relative_gaps(batch.target, residual, norms, residual, largest, self.lam)
        # The first direction is another one, and rough correlations do not sort a ranking.
        valid = (solved == self.lam) & (not sampled and dtype != torch.bfloat16)
        batch.gap = gap.where(valid, torch.inf)
        limit = batch.lam * (1 + SLACK)
        return columns, gram, gradient, (others > limit) & (size.amax(dim=1) <= limit)

    def _largest(
        self, batch: Batch, vectors: Tensor, number: int, dtype: torch.dtype, *, magnitude: bool
    ) -> tuple[Tensor, Tensor]:
        """The largest products of vectors (B, d) with columns outside the solutions.

        Returns values (B, number) float64, largest first, -inf where too few count, and rows.
        """
        factors = vectors.to(dtype)
        masked = torch.cat([batch.columns, batch.excluded], dim=1)
        values = torch.empty(len(vectors), 0, dtype=dtype, device=self.device)
        rows = torch.empty_like(values, dtype=torch.int64)
        step = max(1, _PRODUCTS // max(vectors.shape))
        for start, chunk in zip(range(0, len(self.rows), step), self.rows.split(step), strict=True):
            products = factors @ chunk.to(dtype).t()
            products = products.abs() if magnitude else products
            at = masked - start
            inside = (at >= 0) & (at < len(chunk))
            limits = torch.full_like(at, torch.inf, dtype=dtype).where(~inside, -torch.inf)
            products.scatter_reduce_(1, at.clamp(0, len(chunk) - 1), limits, "amin")
            best = products.topk(min(number, len(chunk)), dim=1)
            values = torch.cat([values, best.values], dim=1)
            rows = torch.cat([rows, best.indices + start], dim=1)
            best = values.topk(min(number, values.shape[1]), dim=1)
            values, rows = best.values, rows.gather(1, best.indices)
        return values.double(), rows

    def _gathered(self, columns: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Columns (B, p) of the pool, for some questions at a time: (b, p, d) float64.

        They are centred where the problem has centred columns.
        """
        step = max(1, _GATHERED // (self.rows.shape[1] * max(1, columns.shape[1])))
        for start in range(0, len(columns), step):
            at = slice(start, start + step)
            found = self.rows[columns[at].clamp_min(0)].double()
            yield at, found - found.mean(dim=2, keepdim=True) if self.pool.centred else found

    def _improve(self, batch: Batch, columns: Tensor, gram: Tensor, gradient: Tensor) -> None:
        """Moves questions to the minimum in their working sets (B, p)."""
        x = torch.zeros_like(gradient)
        x[:, : batch.weights.shape[1]] = batch.weights
        x = batched_minimum(gram, gradient, batch.lam, x, columns >= 0, positive=self.positive)
        width = int((x != 0).sum(dim=1).amax())
        order = (x != 0).byte().sort(dim=1, descending=True, stable=True).indices[:, :width]
        batch.weights = x.gather(1, order)
        batch.columns = columns.gather(1, order).where(batch.weights != 0, -1)
        batch.residual = batch.target.clone()
        for at, found in self._gathered(batch.columns):
            batch.residual[at] -= torch.bmm(batch.weights[at, None], found)[:, 0]

    def _best(self, done: Batch, k: int) -> tuple[Tensor, Tensor]:
        """The best k rows (B, k) and their scores: by coefficient, then by correlation."""
        values, rows = done.values, done.rows
        if not self.positive and bool(((done.weights > 0).sum(dim=1) < k).any()):
            values, rows = self._largest(done, done.residual, k, torch.float32, magnitude=False)
        scores = torch.cat([done.weights, values], dim=1)
        rows = torch.cat([done.columns, rows], dim=1)
        outside = torch.arange(scores.shape[1], device=self.device) >= done.weights.shape[1]
        # Coefficients over 0, columns outside, negative coefficients, padding.
        group = torch.where(outside, 1, torch.where(scores > 0, 0, 2))
        group = group.where((rows >= 0) & (scores > -torch.inf), 3)
        order = scores.argsort(dim=1, descending=True, stable=True)
        order = order.gather(1, group.gather(1, order).argsort(dim=1, stable=True))[:, :k]
        best = scores.where(group == 0, 0).gather(1, order)
        return rows.gather(1, order), best.float()


def batched_minimum(
    gram: Tensor, gradient: Tensor, lam: Tensor, x: Tensor, allowed: Tensor, *, positive: bool
) -> Tensor:
    """Minimises 1/2 x^T G x - c^T x + lam |x|_1 for B working sets by an active-set method.

    Columns that violate the optimality conditions enter the active set, several at a time. A Newton
    step leads to the minimum over the active set. Where coefficients change their sign on the way,
    they are clipped at zero, the best of some step lengths is taken, and they leave the active set.
    The objective never increases, so no active set whose minimum was reached comes back.

    Args:
        gram: G, (B, p, p) float64.
        gradient: c - G x at the given x, (B, p).
        lam: Weights of |x|_1, (B,).
        x: (B, p), 0 where it is not allowed.
        allowed: Which columns may enter, (B, p).
        positive: Whether x >= 0; otherwise signs are free.

    Returns:
        x, (B, p).
    """
    linear = gradient + torch.bmm(gram, x[:, :, None])[:, :, 0]
    x, signs = x.clone(), x.sign()
    which = torch.arange(len(x), device=x.device)  # questions that are not at their minimum yet
    for _ in range(_MAX_STEPS):
        size = max(1, int((signs[which] != 0).sum(dim=1).amax()))
        # The active sets in front, padded with columns that are not free.
        active = (signs[which] != 0).byte().sort(dim=1, descending=True, stable=True)
        free, places = active.values[:, :size].bool(), active.indices[:, :size]
        rows = gram[which[:, None], places]  # (b, size, p)
        square = rows.gather(2, places[:, None].expand(-1, size, -1))
        square = square.where(free[:, :, None] & free[:, None], 0.0)
        old, sign = x[which].gather(1, places), signs[which].gather(1, places)
        right = (linear[which].gather(1, places) - lam[which, None] * sign).where(free, 0.0)
        ridge = square.diagonal(dim1=1, dim2=2) * _RIDGE + ~free
        factor, _ = torch.linalg.cholesky_ex(square + ridge.diag_embed())
        rest = right[:, :, None] - torch.bmm(square, old[:, :, None])
        step = torch.cholesky_solve(rest, factor)
        # Once more, because the ridge and rounding keep the first step from the minimum.
        step = step + torch.cholesky_solve(rest - torch.bmm(square, step), factor)
        step = step[:, :, 0].where(free, 0.0)
        wrong = free & ((old + step) * sign <= 0)
        best = _line_search(square, right, old, step, sign, wrong)
        sign = sign.where(~(wrong & (best == 0)), 0.0)
        x[which] = torch.zeros_like(x[which]).scatter(1, places, best.where(free, 0.0))
        kept = torch.zeros_like(x[which]).scatter(1, places, sign.where(free, 0.0))
        # Columns enter only at the minimum over the active set.
        waits = wrong.any(dim=1)
        slope = linear[which] - torch.bmm(best[:, None], rows)[:, 0]
        key = (slope if positive else slope.abs()) - (lam[which] * (1 + SLACK))[:, None]
        key = key.where(allowed[which] & (kept == 0) & ~waits[:, None], -torch.inf)
        entering = key.topk(min(_ENTERING, key.shape[1]), dim=1)
        enters = torch.zeros_like(kept, dtype=torch.bool)
        enters.scatter_(1, entering.indices, entering.values > 0)
        signs[which] = slope.sign().where(enters, kept)
        which = which[(waits | enters.any(dim=1)).nonzero()[:, 0]]
        if not len(which):
            break
    return x


def _line_search(
    square: Tensor, right: Tensor, old: Tensor, step: Tensor, sign: Tensor, wrong: Tensor
) -> Tensor:
    """The best x (b, s) on the path old + length * step, clipped at zero where signs change.

    All arguments are of active sets: `square` (b, s, s) is G, `right` (b, s) is c - lam sign(x),
    and `wrong` (b, s) are the coefficients whose sign the whole step changes. Without any, it is
    the whole step; otherwise at least one becomes zero if no step decreases the objective.
    """
    # The length at which the first one reaches zero: up to there, nothing is clipped.
    room = (-old / step).nan_to_num(0).where(wrong, torch.inf).clamp_min(0)
    first = room.amin(dim=1, keepdim=True)
    halvings = 0.5 ** torch.arange(_HALVINGS, dtype=old.dtype, device=old.device)
    lengths = torch.cat([first.clamp_max(1), halvings.expand(len(old), -1)], dim=1)
    path = old[:, :, None] + lengths[:, None] * step[:, :, None]  # (b, s, lengths)
    clipped = wrong[:, :, None] & (path * sign[:, :, None] <= 0)
    clipped[:, :, 0] |= wrong & (room <= first)
    path = path.where(~clipped, 0.0)
    # Along the path |x| is sign * x, which `right` contains.
    objective = (path * (0.5 * torch.bmm(square, path) - right[:, :, None])).sum(dim=1)
    best = objective.argmin(dim=1)
    # With no sign to change, `first` is cut to the whole step: exactly the minimum.
    best = best.where(wrong.any(dim=1), 0)
    return path.gather(2, best[:, None, None].expand(-1, old.shape[1], 1))[:, :, 0]
