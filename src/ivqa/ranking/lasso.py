"""Basic questions by LASSO over sentence embeddings, certified over the whole pool [ROB 3].

min_x 1/2 |A x - b|^2 + lam |x|_1 with the pool's vectors as columns of A and the main question's
as b; x_i is the similarity score of basic question i.

A few columns solve the problem and nobody knows which, so it is solved in a working set; one
product of the residual with the whole pool finds the columns that were missed, or certifies that
there are none. Many questions are in flight at once, each at its own stage.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress
from torch import Tensor

from ivqa.device import fastest_dtype
from ivqa.ranking.pool_products import PoolProducts
from ivqa.ranking.working_set import Question, Rows, WorkingSet

T = TypeVar("T")

# Passes, and failures in the working set, after which a question ends with the gap that it has.
_MOST_ROUNDS, _MOST_FAILURES = 100, 5
# Missed columns that do not matter: with so few, the next pass may be the last.
_FEW = 4
# By what lam falls at a time where signs are free.
_DECAY = 3.0
# The longest ranking whose columns beyond the support come from the last pass.
_LISTED = 64


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

    pool: (N, d) float32, one vector a row, unit l2 norm as a rule; may be memory-mapped and larger
    than the memory. A zero vector is never chosen; a zero main question has no score over 0.
    lam: the weight of |x|_1 in the equation above (scikit-learn's alpha times d). positive:
    x >= 0, the scores of the papers; false frees the signs. intercept: centres b and every column
    over the d coordinates, as the published code did. tolerance: of the relative duality gap.
    working_set: columns that a pass over the pool brings to a question, which takes those that it
    needs. batch_size: main questions in flight. device: of the products with the pool. screening:
    the number format of products that look for missed columns; bfloat16 is faster where the
    processor multiplies it, and certificates come from float32 and float64 in any case; by default
    the processor decides. progress: shows a bar.

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
        working_set: int = 192,
        batch_size: int = 1024,
        device: str = "cpu",
        screening: torch.dtype | None = None,
        progress: bool = False,
    ) -> None:
        if pool.ndim != 2 or not len(pool):
            raise ValueError(f"the pool must be a matrix (N, d) with N >= 1, not {pool.shape}")
        if pool.dtype != np.float32:
            raise ValueError(f"the pool must be float32, not {pool.dtype}")
        if not lam > 0:
            raise ValueError(f"lam must be over 0, not {lam}")
        self.lam, self.positive, self.intercept = float(lam), positive, intercept
        self.tolerance, self.progress = tolerance, progress
        self.working_set, self.batch_size = min(working_set, len(pool)), batch_size
        self.pool = PoolProducts(pool, centred=intercept, device=torch.device(device))
        self.screening = screening or fastest_dtype(device)
        self._local = threading.local()

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
        size = len(vectors)
        ranking = Ranking(
            indices=np.zeros((size, k), dtype=np.int64),
            scores=np.zeros((size, k), dtype=np.float32),
            gap=np.zeros(size),
            support=np.zeros(size, dtype=np.int64),
            rounds=0,
        )
        rounds, flight, waiting = 0, list[Question](), iter(range(size))
        with (
            Progress(disable=not self.progress, transient=True) as bar,
            _SingleThreads() as threads,
        ):
            task = bar.add_task("ranking questions", total=size)
            while True:
                for number in islice(waiting, self.batch_size - len(flight)):
                    banned = [] if exclude is None else exclude[number]
                    flight.append(self._question(number, vectors[number], banned))
                if not flight:
                    return replace(ranking, rounds=rounds)
                values, rows = self._pass(flight, k)
                gaps, going = self._gaps(flight, values, rows), []
                for at, question in enumerate(flight):
                    rounds = max(rounds, question.rounds)
                    hopeless = question.rounds == _MOST_ROUNDS or question.failed == _MOST_FAILURES
                    if gaps[at] <= self.tolerance or hopeless:
                        ranking.gap[question.number] = gaps[at]
                        self._write(ranking, question, values[at], rows[at])
                    else:
                        going.append(at)
                bar.advance(task, len(flight) - len(going))
                joining = [self._joining(flight[at], values[at], rows[at]) for at in going]
                flight = [flight[at] for at in going]
                threads.map(self._improve, zip(flight, joining, strict=True))

    def _question(
        self, number: int, vector: NDArray[np.float32], banned: Sequence[int]
    ) -> Question:
        target = vector.astype(np.float64)
        if self.intercept:
            target -= target.mean()
        rows = np.array(list(banned), dtype=np.int64)
        return Question(number, self.lam, target, rows, residual=target)

    def _pass(self, flight: list[Question], k: int) -> tuple[Tensor, Tensor]:
        """The largest correlations of columns outside with each residual, and their rows, (B, m).

        In float32 where a question is to be certified, else in the format that screens.
        """
        listed = min(max(self.working_set, min(k, _LISTED)), len(self.pool))
        values = torch.empty(len(flight), listed)
        rows = torch.empty(len(flight), listed, dtype=torch.int64)
        for certifying in (False, True):
            here = [at for at, question in enumerate(flight) if question.certifying == certifying]
            if here:
                dtype = torch.float32 if certifying else self.screening
                questions = [flight[at] for at in here]
                values[here], rows[here] = self._largest(questions, listed, dtype)
        for question in flight:
            question.rounds += 1
        return values, rows

    def _largest(
        self, questions: list[Question], number: int, dtype: torch.dtype, *, signed: bool = False
    ) -> tuple[Tensor, Tensor]:
        masked = [np.concatenate([question.columns, question.banned]) for question in questions]
        which = np.repeat(np.arange(len(questions)), [len(rows) for rows in masked])
        return self.pool.largest(
            _residuals(questions),
            number,
            (torch.from_numpy(which), torch.from_numpy(np.concatenate(masked))),
            magnitude=not (self.positive or signed),
            dtype=dtype,
        )

    def _gaps(self, flight: list[Question], values: Tensor, rows: Tensor) -> NDArray[np.float64]:
        """Relative duality gaps over the whole pool, (B,); infinite where a pass cannot tell."""
        gaps = np.full(len(flight), np.inf)
        here = [at for at, question in enumerate(flight) if question.certifying]
        if here:
            questions = [flight[at] for at in here]
            residual = _residuals(questions)
            outside = self._largest_exactly(questions, residual, values[here], rows[here])
            gaps[here] = _relative_gaps(questions, residual, outside, self.lam).numpy()
        return gaps

    def _largest_exactly(
        self, questions: list[Question], residual: Tensor, values: Tensor, rows: Tensor
    ) -> Tensor:
        """The largest correlation of a column outside with the residual, (B,), never too small.

        Those that may exceed lam are computed in float64, unless one does so for sure.
        """
        margin = self.pool.error(torch.float32) * residual.norm(dim=1)
        top, listed = values.double(), values.shape[1]
        near = top > (self.lam - margin)[:, None]
        sure = top[:, 0] > self.lam + margin
        largest = torch.where(sure, top[:, 0] + margin, 0.0)
        which, place = (near & ~sure[:, None]).nonzero(as_tuple=True)
        exact = self.pool.products(rows[which, place], residual, which)
        largest = largest.scatter_reduce(0, which, exact if self.positive else exact.abs(), "amax")
        if listed < len(self.pool):
            # More may exceed lam than are listed, such as copies of the columns in use.
            for at in (near[:, -1] & ~sure).nonzero()[:, 0].tolist():
                one, more = questions[at : at + 1], min(16 * listed, len(self.pool))
                found = self._largest(one, more, torch.float32)
                largest[at] = self._largest_exactly(one, residual[at : at + 1], *found)[0]
        return largest

    def _joining(self, question: Question, values: Tensor, rows: Tensor) -> Rows:
        """The columns that may join; decides how exact what follows is to be.

        With free signs hundreds of columns are needed and small lam has poor ones enter before
        good ones are known, so that lam comes down by and by.
        """
        dtype = torch.float32 if question.certifying else self.screening
        error = self.pool.error(dtype) * float(np.linalg.norm(question.residual))
        found, listed = values.numpy(), rows.numpy()
        missed = (found > question.lam + error) & ~np.isin(listed, question.rejected)
        few = missed.sum() <= max(_FEW, len(question.columns) // 16)
        if not self.positive and (question.rounds == 1 or (few and question.lam > self.lam)):
            before = float(values[0]) if question.rounds == 1 else question.lam
            question.lam = max(self.lam, before / _DECAY)
        elif few or question.rounds >= _MOST_ROUNDS // 5:
            question.certifying = True
        return listed[found > question.lam - error]

    def _improve(self, job: tuple[Question, Rows]) -> None:
        if not hasattr(self._local, "work"):
            self._local.work = WorkingSet(self.pool, positive=self.positive)
        self._local.work.improve(*job)

    def _write(self, ranking: Ranking, question: Question, values: Tensor, rows: Tensor) -> None:
        """The best k: by coefficient, then by correlation with the residual."""
        k = ranking.indices.shape[1]
        order = np.argsort(-question.weights, kind="stable")
        columns, weights = question.columns[order], question.weights[order]
        support = int((weights > 0).sum())
        # The last pass lists what comes behind, unless it looked at magnitudes or not as far.
        if support < k and not (self.positive and k - support <= len(rows)):
            number = min(k, len(self.pool))
            found = self._largest([question], number, torch.float32, signed=True)
            values, rows = found[0][0], found[1][0]
        rest = rows[values > -torch.inf].numpy()
        best = np.concatenate([columns[:support], rest, columns[support:]])[:k]
        support = min(support, k)
        ranking.indices[question.number] = best
        ranking.scores[question.number, :support] = weights[:support]
        ranking.support[question.number] = support

    def _check(
        self, vectors: NDArray[np.float32], k: int, exclude: Sequence[Sequence[int]] | None
    ) -> None:
        size = self.pool.dimensions
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


class _SingleThreads:
    """As many threads as torch has, each of which computes alone: for many small problems."""

    def __enter__(self) -> Self:
        self.number = torch.get_num_threads()
        self.threads = ThreadPoolExecutor(self.number, "lasso", torch.set_num_threads, (1,))
        return self

    def __exit__(self, *error: object) -> None:
        self.threads.shutdown()

    def map(self, call: Callable[[T], None], items: Iterable[T]) -> None:
        """Calls with each item."""
        try:
            list(self.threads.map(call, items))
        finally:
            # What a thread sets for itself is the default of all that come later.
            torch.set_num_threads(self.number)


def _residuals(questions: Sequence[Question]) -> Tensor:
    return torch.from_numpy(np.stack([question.residual for question in questions]))


def _relative_gaps(
    questions: Sequence[Question], residual: Tensor, outside: Tensor, lam: float
) -> Tensor:
    """(primal - dual) / primal, (B,) float64, at the dual point s r with the best scale s.

    outside: the largest correlation of a column outside the working set with the residual, (B,).
    """
    target = torch.from_numpy(np.stack([question.target for question in questions]))
    norms = torch.from_numpy(np.array([np.abs(one.weights).sum() for one in questions]))
    inside = torch.tensor([question.inside for question in questions], dtype=torch.float64)
    largest = torch.maximum(outside, inside).clamp_min(lam * 1e-6)
    square, along = residual.square().sum(dim=1), (target * residual).sum(dim=1)
    primal = 0.5 * square + lam * norms
    scale = torch.minimum((along / square.clamp_min(1e-300)).clamp_min(0), lam / largest)
    dual = scale * along - 0.5 * scale.square() * square
    # What float64 rounds away is not certified.
    return ((primal - dual) / primal.clamp_min(1e-300)).clamp_min(torch.finfo(torch.float64).eps)
