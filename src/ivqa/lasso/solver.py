"""Basic questions by LASSO over sentence embeddings, certified over the whole pool [ROB 3].

min_x 1/2 |A x - b|^2 + lam |x|_1 with the pool's vectors as columns of A and the main question's
as b; x_i is the similarity score of basic question i.

A few columns solve the problem and nobody knows which, so it is solved in a working set; one
product of the residual with the whole pool finds the columns that were missed, or certifies that
there are none. Many questions are in flight at once, each at its own stage.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress
from torch import Tensor

from ivqa.lasso.certificate import TOLERANCE, relative_gaps
from ivqa.lasso.full_basis import TOGETHER, FullBasis
from ivqa.lasso.pool_products import PoolProducts
from ivqa.lasso.ranking import OnUncertified, Ranking
from ivqa.lasso.threads import SingleThreads
from ivqa.lasso.working_set import Question, Rows, WorkingSet

# Passes, and failures in the working set, after which a question is solved with a full basis.
_MOST_ROUNDS, _MOST_FAILURES = 100, 5
# The same for passes where x >= 0: what needs so many has about as many columns as dimensions.
_MOST_ROUNDS_POSITIVE = 24
# Missed columns that do not matter: with so few, the next pass may be the last.
_FEW = 4
# Columns that a pass brings.
_LEAST, _MOST = 192, 384
# How far under lam columns may be that a pass brings, relative to the residual: by what the others
# change, some of them come over it.
_NEAR = 0.003
# By what lam falls at a time where signs are free.
_DECAY = 3.0
# The longest ranking whose columns beyond the support come from the last pass.
_LISTED = 64
# Columns that a product cannot tell from missed ones and that are looked at one by one.
_DOUBTFUL = 512


class LassoSolver:
    """Ranks a pool of basic questions by LASSO.

    pool: (N, d) float32, one vector a row, unit l2 norm as a rule; may be memory-mapped and larger
    than the memory. A zero vector is never chosen; a zero main question has no score over 0.
    lam: the weight of |x|_1 in the equation above (scikit-learn's alpha times d). positive: x >= 0,
    the scores of the papers; false frees the signs. intercept: centres b and every column over the
    d coordinates, as the published code did. tolerance: of the relative duality gap. working_set:
    columns that a pass over the pool brings to a question, which takes those that it needs; by
    default more where the pool is large and a pass takes long. batch_size: main questions in
    flight. device: of the products with the pool. screening: the number format of products that
    look for missed columns; bfloat16 is faster where the processor multiplies it, and certificates
    hold in any case: what its rounding leaves open is looked at in float64, or in float32 before
    that. progress: shows a bar. on_uncertified: whether rankings
    that end with a larger gap than tolerated are an error or a warning; they are counted anyway.

    Raises ValueError where the pool is no finite matrix or lam is not positive.
    """

    def __init__(
        self,
        pool: NDArray[np.float32],
        lam: float = 1e-6,
        positive: bool = True,
        *,
        intercept: bool = False,
        tolerance: float = TOLERANCE,
        working_set: int | None = None,
        batch_size: int = 1024,
        device: str = "cpu",
        screening: torch.dtype = torch.float32,
        progress: bool = False,
        on_uncertified: OnUncertified = "warn",
    ) -> None:
        if pool.ndim != 2 or not len(pool):
            raise ValueError(f"the pool must be a matrix (N, d) with N >= 1, not {pool.shape}")
        if pool.dtype != np.float32:
            raise ValueError(f"the pool must be float32, not {pool.dtype}")
        if not lam > 0:
            raise ValueError(f"lam must be over 0, not {lam}")
        if on_uncertified not in get_args(OnUncertified):
            raise ValueError(f"on_uncertified must be 'warn' or 'error', not {on_uncertified!r}")
        self.lam, self.positive, self.intercept = float(lam), positive, intercept
        self.tolerance, self.progress = tolerance, progress
        self.on_uncertified: OnUncertified = on_uncertified
        working_set = working_set or min(max(_LEAST, len(pool) // 512), _MOST)
        self.working_set, self.batch_size = min(working_set, len(pool)), batch_size
        self.pool = PoolProducts(pool, centred=intercept, device=torch.device(device))
        self.screening = screening
        self._full_basis = FullBasis(self.pool, self.lam, positive=positive)
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
        Raises ValueError for vectors of another size, not finite, or fewer than k rows to rank,
        and UncertifiedError for uncertified rankings where on_uncertified is "error".
        """
        self._check(vectors, k, exclude)
        size = len(vectors)
        ranking = Ranking(
            indices=np.zeros((size, k), dtype=np.int64),
            scores=np.zeros((size, k), dtype=np.float32),
            gap=np.zeros(size),
            support=np.zeros(size, dtype=np.int64),
            rounds=0,
            tolerance=self.tolerance,
        )
        unsolved = list[Question]()
        rounds, flight, waiting = 0, list[Question](), iter(range(size))
        with (
            Progress(disable=not self.progress, transient=True) as bar,
            SingleThreads() as threads,
        ):
            task = bar.add_task("ranking questions", total=size)
            while True:
                for number in islice(waiting, self.batch_size - len(flight)):
                    banned = [] if exclude is None else exclude[number]
                    flight.append(self._question(number, vectors[number], banned))
                if not flight:
                    break
                residual = self._directions(flight)
                values, rows, bounds = self._pass(flight, residual, k)
                gaps, going = self._gaps(flight, residual, values, rows, bounds), []
                for at, question in enumerate(flight):
                    rounds = max(rounds, question.rounds)
                    if gaps[at] <= self.tolerance:
                        ranking.gap[question.number] = gaps[at]
                        self._write(ranking, question, values[at], rows[at])
                        bar.advance(task)
                    elif self._is_stuck(question):
                        question.forget_products()
                        unsolved.append(question)
                    else:
                        going.append(at)
                found = [(flight[at], values[at].numpy(), rows[at].numpy()) for at in going]
                flight = [flight[at] for at in going]
                threads.share(lambda job: self._improve(*job), found)
                if len(unsolved) >= TOGETHER or not flight:
                    rounds = max(rounds, self._solve_exactly(unsolved, ranking))
                    bar.advance(task, len(unsolved))
                    unsolved.clear()
        ranking = replace(ranking, rounds=rounds)
        ranking.report_uncertified(self.on_uncertified)
        return ranking

    def _solve_exactly(self, questions: list[Question], ranking: Ranking) -> int:
        """Ranks what the working sets did not get solved; returns the most passes of one."""
        for question, gap in self._full_basis.solve(questions):
            ranking.gap[question.number] = gap
            self._write(ranking, question, torch.empty(0), torch.empty(0, dtype=torch.int64))
        return max((question.rounds for question in questions), default=0)

    def _is_stuck(self, question: Question) -> bool:
        """Whether the working sets do not get a question solved."""
        most = _MOST_ROUNDS_POSITIVE if self.positive else _MOST_ROUNDS
        return question.rounds >= most or question.failed >= _MOST_FAILURES

    def _question(
        self, number: int, vector: NDArray[np.float32], banned: Sequence[int]
    ) -> Question:
        target = vector.astype(np.float64)
        if self.intercept:
            target -= target.mean()
        rows = np.array(list(banned), dtype=np.int64)
        # Where signs are free, most columns are too near lam for a rough product; and a GPU may
        # round sums on the way, which no bound covers.
        precise = not self.positive or self.pool.device.type != "cpu"
        return Question(number, self.lam, target, rows, residual=target, precise=precise)

    def _directions(self, flight: list[Question]) -> Tensor:
        """What the next pass correlates columns with, (B, d) float64: the residuals.

        A new question correlates with thousands of columns that explain the same of it. What a
        sample of the pool does not explain tells better which of them it takes.
        """
        residual = _residuals(flight)
        if self.positive:
            new = [at for at, question in enumerate(flight) if not question.rounds]
            residual[new] = self.pool.unexplained(residual[new])
        return residual

    def _format(self, question: Question) -> torch.dtype:
        """The number format of a question's next products."""
        return torch.float32 if question.certifying and question.precise else self.screening

    def _pass(
        self, flight: list[Question], residual: Tensor, k: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The largest correlations of columns outside with each residual, (B, m), and their rows.

        Columns under lam for sure are left out, unless a ranking of k needs them. Also returns how
        far correlations may be from the truth, (B,).
        """
        doubtful = _DOUBTFUL if self.positive else 0
        listed = min(max(self.working_set, min(k, _LISTED), doubtful), len(self.pool))
        values = torch.empty(len(flight), listed)
        rows = torch.empty(len(flight), listed, dtype=torch.int64)
        bounds = torch.empty(len(flight))
        least = torch.full((len(flight),), -torch.inf)
        for at, question in enumerate(flight):
            question.rounds += 1
            if question.certifying and len(question.columns) < k:
                question.precise = True  # what comes behind is ranked by these products
            elif self.positive:
                least[at] = self.lam - self._margin(question)
        formats = [self._format(question) for question in flight]
        for dtype in set(formats):
            here = [at for at, one in enumerate(formats) if one == dtype]
            bounds[here] = self.pool.bound(residual[here], dtype, self.lam)
            values[here], rows[here] = self._largest(
                [flight[at] for at in here],
                residual[here],
                listed,
                dtype,
                least=least[here] - bounds[here],
            )
        return values, rows, bounds

    def _largest(
        self,
        questions: list[Question],
        residual: Tensor,
        number: int,
        dtype: torch.dtype,
        *,
        least: Tensor | None = None,
        signed: bool = False,
    ) -> tuple[Tensor, Tensor]:
        masked = [np.concatenate([question.columns, question.banned]) for question in questions]
        which = np.repeat(np.arange(len(questions)), [len(rows) for rows in masked])
        return self.pool.largest(
            residual,
            number,
            (torch.from_numpy(which), torch.from_numpy(np.concatenate(masked))),
            magnitude=not (self.positive or signed),
            dtype=dtype,
            least=least,
        )

    def _gaps(
        self,
        flight: list[Question],
        residual: Tensor,
        values: Tensor,
        rows: Tensor,
        bounds: Tensor,
    ) -> NDArray[np.float64]:
        """Relative duality gaps over the whole pool, (B,); infinite where a pass cannot tell.

        What had to be computed exactly replaces what the pass found.
        """
        gaps = np.full(len(flight), np.inf)
        here = [at for at, question in enumerate(flight) if question.certifying]
        if here:
            questions, residual = [flight[at] for at in here], residual[here]
            outside, values[here] = self._outside(
                questions, residual, values[here], rows[here], bounds[here]
            )
            target = torch.from_numpy(np.stack([question.target for question in questions]))
            norms = torch.from_numpy(np.array([np.abs(one.weights).sum() for one in questions]))
            inside = torch.tensor([one.inside for one in questions], dtype=torch.float64)
            largest = torch.maximum(outside, inside)
            known = relative_gaps(target, residual, norms, residual, largest, self.lam)
            gaps[here] = known.where(outside.isfinite(), torch.inf).numpy()
        return gaps

    def _outside(
        self,
        questions: list[Question],
        residual: Tensor,
        values: Tensor,
        rows: Tensor,
        bounds: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The largest correlation of a column outside with the residual, (B,), never too small.

        Those that may exceed lam are computed in float64, unless one does so for sure. Where
        more may than are listed, it is infinite and the next products are in float32. Also
        returns the values (B, m) with those that were computed.
        """
        upper = values + bounds[:, None]
        near, sure = upper > self.lam, values[:, 0] - bounds > self.lam
        largest = torch.where(sure, upper[:, 0], 0.0).double()
        if values.shape[1] < len(self.pool):
            # Such as copies of the columns in use.
            for at in (near[:, -1] & ~sure).nonzero()[:, 0].tolist():
                one = slice(at, at + 1)
                if self._format(questions[at]) == torch.float32:
                    more = min(16 * values.shape[1], len(self.pool))
                    found = self._largest(questions[one], residual[one], more, torch.float32)
                    again = self._outside(questions[one], residual[one], *found, bounds[one])
                    largest[at], _ = again
                else:
                    questions[at].precise, largest[at] = True, torch.inf
                sure[at] = True
        which, place = (near & ~sure[:, None]).nonzero(as_tuple=True)
        exact = self.pool.products(rows[which, place], residual, which)
        exact = exact if self.positive else exact.abs()
        values[which, place] = exact.float()
        return largest.scatter_reduce(0, which, exact, "amax"), values

    def _margin(self, question: Question) -> float:
        """How far under lam columns may be that a pass brings all the same."""
        return _NEAR * float(np.linalg.norm(question.residual)) if self.positive else 0.0

    def _improve(self, question: Question, found: NDArray[np.float32], listed: Rows) -> None:
        """Solves with what a pass found; decides how exact what follows is to be.

        With free signs hundreds of columns are needed and small lam has poor ones enter before
        good ones are known, so that lam comes down by and by.
        """
        dtype = torch.float32 if question.certifying else self.screening
        error = self.pool.error(dtype) * float(np.linalg.norm(question.residual))
        missed = listed[found > question.lam + error]
        enough = max(_FEW, len(question.columns) // 16)
        few = len(missed) <= enough + len(question.rejected)
        few = few and len(set(missed.tolist()) - set(question.rejected.tolist())) <= enough
        if not self.positive and (question.rounds == 1 or (few and question.lam > self.lam)):
            before = float(found[0]) if question.rounds == 1 else question.lam
            question.lam = max(self.lam, before / _DECAY)
        elif few or question.rounds >= _MOST_ROUNDS // 5:
            question.certifying = True
        if not hasattr(self._local, "work"):
            self._local.work = WorkingSet(self.pool, positive=self.positive)
        joining = found > question.lam - error - self._margin(question)
        joining[self.working_set :] = False
        self._local.work.improve(question, listed[joining], found[joining])

    def _write(self, ranking: Ranking, question: Question, values: Tensor, rows: Tensor) -> None:
        """The best k: by coefficient, then by correlation with the residual."""
        k = ranking.indices.shape[1]
        order = np.argsort(-question.weights, kind="stable")
        columns, weights = question.columns[order], question.weights[order]
        support = int((weights > 0).sum())
        # The last pass lists what comes behind, unless it looked at magnitudes or not as far.
        if support < k and not (self.positive and k - support <= len(rows)):
            number = min(k, len(self.pool))
            residual = _residuals([question])
            found = self._largest([question], residual, number, torch.float32, signed=True)
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


def _residuals(questions: Sequence[Question]) -> Tensor:
    return torch.from_numpy(np.stack([question.residual for question in questions]))
