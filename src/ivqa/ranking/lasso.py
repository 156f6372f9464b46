"""Basic questions by LASSO over sentence embeddings, certified over the whole pool [ROB 3].

min_x 1/2 |A x - b|^2 + lam |x|_1 with the pool's vectors as columns of A and the main question's
as b; x_i is the similarity score of basic question i.

A few columns solve the problem and nobody knows which, so it is solved in a working set; one
product of the residual with the whole pool finds the columns that were missed, or certifies that
there are none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ivqa.ranking.active_set import solve_in_working_set

# Bound of the error of a float32 product of a residual with a unit vector, relative to |r|.
_PRODUCT_ERROR = 5e-7
_MOST_ROUNDS = 30
_GATHER_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Ranking:
    """The k best basic questions of each of B main questions.

    indices: (B, k) int64 rows of the pool, best first. scores: (B, k) float32, the coefficients.
    gap: (B,) float64, (primal - dual) / primal over the whole pool, float64. support: (B,) int64,
    how many of the k have a score over 0; behind them the ranking goes on by correlation with the
    residual, at score 0. rounds: passes over the pool that the slowest question needed.
    """

    indices: NDArray[np.int64]
    scores: NDArray[np.float32]
    gap: NDArray[np.float64]
    support: NDArray[np.int64]
    rounds: int


class LassoRanker:
    """Ranks a pool of basic questions by LASSO.

    pool: (N, d) float32, one vector a row, unit l2 norm as a rule; may be memory-mapped. lam: the
    weight of |x|_1 in the equation above (scikit-learn's alpha times d). positive: x >= 0, the
    scores of the papers; false frees the signs. intercept: centres b and every column over the d
    coordinates, as the published code did. tolerance: of the relative duality gap. working_set:
    columns to begin with. batch_size: main questions at once. device: of the products.

    Raises ValueError where the pool is no finite matrix or lam is not positive.
    """

    def __init__(
        self,
        pool: NDArray[np.float32],
        lam: float = 1e-6,
        positive: bool = True,
        *,
        intercept: bool = False,
        tolerance: float = 1e-6,
        working_set: int = 96,
        batch_size: int = 256,
        chunk_rows: int = 65536,
        device: str = "cpu",
    ) -> None:
        if pool.ndim != 2 or not len(pool):
            raise ValueError(f"the pool must be a matrix (N, d) with N >= 1, not {pool.shape}")
        if pool.dtype != np.float32:
            raise ValueError(f"the pool must be float32, not {pool.dtype}")
        if not lam > 0:
            raise ValueError(f"lam must be over 0, not {lam}")
        self.pool, self.lam, self.positive = pool, float(lam), positive
        self.intercept, self.tolerance = intercept, tolerance
        self.working_set, self.batch_size = min(working_set, len(pool)), batch_size
        self.chunk_rows, self.device = chunk_rows, torch.device(device)
        for start, rows in self._chunks():
            if not torch.isfinite(rows).all():
                bad = start + int((~torch.isfinite(rows)).any(dim=1).nonzero()[0])
                raise ValueError(f"vector {bad} of the pool is not finite; encode it again")

    def rank(
        self,
        vectors: NDArray[np.float32],
        k: int = 21,
        exclude: Sequence[Sequence[int]] | None = None,
    ) -> Ranking:
        """The k best of the pool for each of the main questions `vectors` (B, d).

        exclude: for each main question the rows of the pool that must not be used, such as its
        own duplicates.
        Raises ValueError for vectors of another size, not finite, or fewer than k rows to rank.
        """
        self._check(vectors, k, exclude)
        parts = []
        for start in range(0, len(vectors), self.batch_size):
            stop = start + self.batch_size
            forbidden = None if exclude is None else exclude[start:stop]
            parts.append(self._rank_batch(vectors[start:stop], k, forbidden))
        if not parts:
            empty = np.empty((0, k))
            none = np.empty(0, dtype=np.int64)
            return Ranking(empty.astype(np.int64), empty.astype(np.float32), np.empty(0), none, 0)
        return Ranking(
            indices=np.concatenate([part.indices for part in parts]),
            scores=np.concatenate([part.scores for part in parts]),
            gap=np.concatenate([part.gap for part in parts]),
            support=np.concatenate([part.support for part in parts]),
            rounds=max(part.rounds for part in parts),
        )

    def _rank_batch(
        self, vectors: NDArray[np.float32], k: int, exclude: Sequence[Sequence[int]] | None
    ) -> Ranking:
        target = torch.from_numpy(np.ascontiguousarray(vectors)).double()  # b, (B, d)
        if self.intercept:
            target = target - target.mean(dim=1, keepdim=True)
        size = len(target)
        banned = _pairs(exclude)
        products = self._products(target, banned)
        work = self._key(products).topk(self.working_set, dim=1).indices  # (B, p)
        allowed = products.gather(1, work).isfinite()
        gram, correlation = self._gram(work, None), self._correlations(work, target)
        solution = torch.zeros(size, work.shape[1], dtype=torch.float64)
        gap = torch.full((size,), float("inf"), dtype=torch.float64)
        indices = torch.zeros(size, k, dtype=torch.int64)
        scores = torch.zeros(size, k)
        support = torch.zeros(size, dtype=torch.int64)
        todo = torch.arange(size)  # questions that are not certified yet
        rounds = 0
        while rounds < _MOST_ROUNDS:
            rounds += 1
            masked = torch.where(allowed, correlation, -torch.inf)
            solution = solve_in_working_set(
                gram, masked, self.lam, positive=self.positive, start=solution
            )
            residual = target - self._combination(work, solution)
            products = self._products(residual, _select(banned, todo))
            gradient = correlation - torch.bmm(gram, solution[:, :, None])[:, :, 0]
            outside = products.scatter(1, work, -torch.inf)
            largest = self._largest(outside, residual, gradient, allowed)
            gap_now = self._gap(target, residual, solution, largest)
            gap[todo] = gap_now
            ranked = self._ranked(outside, work, solution, gradient, allowed, k)
            indices[todo], scores[todo], support[todo] = ranked
            open_ = gap_now > self.tolerance
            if not open_.any() or work.shape[1] >= len(self.pool):
                break
            keep = open_.nonzero()[:, 0]
            todo, target, work, gram = todo[keep], target[keep], work[keep], gram[keep]
            correlation, allowed, solution = correlation[keep], allowed[keep], solution[keep]
            added, may = self._missed(outside[keep], residual[keep], len(self.pool) - work.shape[1])
            gram = self._gram(work, added, gram)
            correlation = torch.cat([correlation, self._correlations(added, target)], dim=1)
            work, allowed = torch.cat([work, added], dim=1), torch.cat([allowed, may], dim=1)
            solution = torch.nn.functional.pad(solution, (0, added.shape[1]))
        return Ranking(indices.numpy(), scores.numpy(), gap.numpy(), support.numpy(), rounds)

    def _missed(self, outside: Tensor, residual: Tensor, room: int) -> tuple[Tensor, Tensor]:
        """The columns to add (B', m): as many as the question with most violations needs."""
        key = self._key(outside)
        number = int((key > self.lam).sum(dim=1).max().clamp(8, 64))
        best = key.topk(min(number, room), dim=1)
        return best.indices, best.values.isfinite()

    def _largest(
        self, outside: Tensor, residual: Tensor, gradient: Tensor, allowed: Tensor
    ) -> Tensor:
        """The largest correlation of a column with the residual, (B,) float64, never too small.

        Products in float32 screen; columns that may exceed lam are computed in float64.
        """
        margin = _PRODUCT_ERROR * residual.norm(dim=1)
        inside = torch.where(allowed, gradient, -torch.inf)
        largest = self._key(inside).amax(dim=1)
        key = self._key(outside)
        near = key > (self.lam - margin)[:, None].float()
        # Far more than lam: no certificate in sight, float32 will do.
        far = key.amax(dim=1).double() > 100 * margin + 2 * self.lam
        largest = torch.where(far, torch.maximum(largest, key.amax(dim=1).double()), largest)
        rows, columns = (near & ~far[:, None]).nonzero(as_tuple=True)
        exact = torch.cat(
            [
                torch.einsum("nd,nd->n", self._gather(columns[part]), residual[rows[part]])
                for part in _parts(len(rows), self._rows_at_once())
            ]
            or [residual.new_zeros(0)]
        )
        largest = largest.scatter_reduce(0, rows, self._key(exact), "amax")
        return torch.maximum(largest, torch.full_like(largest, self.lam * 1e-6))

    def _gap(self, target: Tensor, residual: Tensor, solution: Tensor, largest: Tensor) -> Tensor:
        """(primal - dual) / primal, (B,) float64, at the dual point s r with the best scale s."""
        square = residual.square().sum(dim=1)
        primal = 0.5 * square + self.lam * solution.abs().sum(dim=1)
        along = (target * residual).sum(dim=1)
        scale = (along / square.clamp_min(1e-300)).clamp_min(0)
        scale = torch.minimum(scale, self.lam / largest)
        dual = scale * along - 0.5 * scale.square() * square
        return ((primal - dual) / primal.clamp_min(1e-300)).clamp_min(0)

    def _ranked(
        self,
        outside: Tensor,
        work: Tensor,
        solution: Tensor,
        gradient: Tensor,
        allowed: Tensor,
        k: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Indices, scores and support: by coefficient, then by correlation with the residual."""
        rest = torch.where(allowed & (solution == 0), gradient, -torch.inf).to(outside.dtype)
        # Any coefficient over 0 goes before any correlation, which is at most 2 for unit vectors.
        bound = (
            outside.masked_fill(outside == -torch.inf, 0).abs().amax()
            + rest.masked_fill(rest == -torch.inf, 0).abs().amax()
        )
        first = torch.where(solution > 0, 1 + bound + solution.to(outside.dtype), rest)
        indices = outside.scatter(1, work, first).topk(k, dim=1).indices
        dense = torch.zeros_like(outside).scatter(1, work, solution.to(outside.dtype))
        scores = dense.gather(1, indices).clamp_min(0)
        order = scores.sort(dim=1, descending=True, stable=True)  # float32 ties of the sum above
        return indices.gather(1, order.indices), order.values, (scores > 0).sum(dim=1)

    def _key(self, correlations: Tensor) -> Tensor:
        """What must not exceed lam: the correlation itself, or where signs are free its size."""
        if self.positive:
            return correlations
        return torch.where(correlations == -torch.inf, correlations, correlations.abs())

    def _chunks(self) -> Iterator[tuple[int, Tensor]]:
        for start in range(0, len(self.pool), self.chunk_rows):
            rows = np.ascontiguousarray(self.pool[start : start + self.chunk_rows])
            yield start, torch.from_numpy(rows).to(self.device)

    def _products(self, vectors: Tensor, banned: tuple[Tensor, Tensor]) -> Tensor:
        """Vectors A, (B, N) float32; -inf at the banned (question, row) pairs."""
        products = torch.empty(len(vectors), len(self.pool))
        single = vectors.float().to(self.device)
        for start, rows in self._chunks():
            products[:, start : start + len(rows)] = (single @ rows.t()).cpu()
        products[banned] = -torch.inf
        return products

    def _gather(self, rows: Tensor) -> Tensor:
        """Columns of A, (n, d) float64, for rows (n,) of the pool; centred with an intercept."""
        found = torch.from_numpy(np.asarray(self.pool[rows.numpy()])).double()
        return found - found.mean(dim=1, keepdim=True) if self.intercept else found

    def _rows_at_once(self) -> int:
        return max(1, _GATHER_BYTES // (8 * self.pool.shape[1]))

    def _correlations(self, columns: Tensor, target: Tensor) -> Tensor:
        """The product A_W^T b, (B, p) float64."""
        return self._by_question(
            columns, lambda gathered, part: torch.bmm(gathered, target[part][:, :, None])[:, :, 0]
        )

    def _combination(self, columns: Tensor, solution: Tensor) -> Tensor:
        """The product A_W x, (B, d) float64, gathering only columns with x != 0."""
        number = int((solution != 0).sum(dim=1).max().clamp_min(1))
        top = solution.abs().topk(number, dim=1).indices
        chosen, weights = columns.gather(1, top), solution.gather(1, top)
        return self._by_question(
            chosen, lambda gathered, part: torch.bmm(weights[part][:, None], gathered)[:, 0]
        )

    def _gram(self, columns: Tensor, added: Tensor | None, known: Tensor | None = None) -> Tensor:
        """Gram matrices (B, p, p) float64 of the columns, or known ones grown by `added`."""
        if added is None or known is None:
            return self._by_question(
                columns, lambda gathered, _: torch.bmm(gathered, gathered.transpose(1, 2))
            )
        count = columns.shape[1]
        both = torch.cat([columns, added], dim=1)
        grown = self._by_question(
            both, lambda gathered, _: torch.bmm(gathered, gathered[:, count:].transpose(1, 2))
        )  # (B, p + m, m)
        top = torch.cat([known, grown[:, :count]], dim=2)
        return torch.cat([top, grown.transpose(1, 2)], dim=1)

    def _by_question(self, columns: Tensor, use: Callable[[Tensor, slice], Tensor]) -> Tensor:
        step = max(1, self._rows_at_once() // columns.shape[1])
        parts = []
        for part in _parts(len(columns), step):
            chosen = columns[part]
            gathered = self._gather(chosen.flatten()).view(*chosen.shape, -1)
            parts.append(use(gathered, part))
        return torch.cat(parts)

    def _check(
        self, vectors: NDArray[np.float32], k: int, exclude: Sequence[Sequence[int]] | None
    ) -> None:
        size = self.pool.shape[1]
        if vectors.ndim != 2 or vectors.shape[1] != size:
            raise ValueError(
                f"main questions must be vectors (B, {size}) as in the pool, not {vectors.shape}; "
                "encode both with the same encoder"
            )
        if not np.isfinite(vectors).all():
            bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise ValueError(f"main question {bad} has a vector that is not finite")
        if exclude is not None and len(exclude) != len(vectors):
            raise ValueError(
                f"exclude has {len(exclude)} entries for {len(vectors)} main questions"
            )
        most = max((len(set(rows)) for rows in exclude), default=0) if exclude is not None else 0
        if not 1 <= k <= len(self.pool) - most:
            raise ValueError(
                f"k={k} of {len(self.pool)} basic questions, {most} of them excluded; choose "
                "fewer or enlarge the pool"
            )


def _parts(total: int, step: int) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, total, step))


def _pairs(exclude: Sequence[Sequence[int]] | None) -> tuple[Tensor, Tensor]:
    """(question, row) pairs of the excluded rows, two (n,) int64."""
    rows = [] if exclude is None else [list(row) for row in exclude]
    questions = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    flat = [index for row in rows for index in row]
    return torch.from_numpy(questions.astype(np.int64)), torch.tensor(flat, dtype=torch.int64)


def _select(pairs: tuple[Tensor, Tensor], questions: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs of the given questions (n,) ascending, renumbered."""
    kept = torch.isin(pairs[0], questions)
    return torch.searchsorted(questions, pairs[0][kept]), pairs[1][kept]
