"""LASSO over a large pool of columns, certified over the whole pool.

It minimises 1/2 |A x - b|^2 + lam |x|_1 with the pool's vectors as columns of A and the question's
vector as b; x_i is the score of column i [ROB 3]. A solution needs few columns, but which ones is
unknown, so each question is solved in a working set. A pass over the pool finds the columns that
the working set misses, or certifies that there are none. Many questions are in progress at once,
each at its own stage.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import Progress
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ivqa.lasso.batched_solver import BatchedSolver
from ivqa.lasso.certificate import TOLERANCE, reported_gaps
from ivqa.lasso.compiling import Ints
from ivqa.lasso.pool_products import PoolProducts
from ivqa.lasso.ranking import OnUncertified, Ranking
from ivqa.lasso.screening import PassResult, Screening, stacked_residuals
from ivqa.lasso.threads import SingleThreads
from ivqa.lasso.working_set import Question, WorkingSet

# Passes after which a question ends uncertified. Real questions need up to 8 where x >= 0, and 35
# where signs are free: lam falls in steps there, and each step needs passes of its own. Among
# 20,000 random vectors a question with as many columns as dimensions needs up to 240.
_MAX_ROUNDS = 300
# Working sets that end without a solution of the required accuracy, after which it ends as well.
_MAX_FAILURES = 50
_CERTIFY_AFTER = 20  # passes after which every pass tries to certify
# Missed columns that are too few to matter, by number or as a share of the columns in use: the next
# pass may be the last, so its products are computed as accurately as a certificate needs.
_FEW_MISSED, _FEW_MISSED_SHARE = 4, 1 / 16
_LAM_STEP = 3.0  # the factor by which lam falls from one step to the next where signs are free


@dataclass(frozen=True)
class SolverSettings:
    """What a caller may choose; a certificate means the same for each.

    Attributes:
        screening: Number format of the products that look for missed columns, float32 or bfloat16.
            None takes float32. bfloat16 is faster where the processor multiplies it. Correlations
            that its rounding leaves undecided are computed again in float64 or float32.
        batch_size: Questions that share a pass over the pool. More of them make better use of each
            chunk that is read, and need more memory.
        progress: Whether to show a progress bar.
    """

    screening: torch.dtype | None = None
    batch_size: int = 1024
    progress: bool = False


class LassoSolver:
    """Ranks the columns of a pool by LASSO.

    Args:
        pool: (N, d) float32, one vector a row, usually of unit norm. It may be memory-mapped and
            larger than the memory. A zero vector never gets a score over 0.
        lam: Weight of |x|_1 in the equation above, over 0: scikit-learn's alpha times d.
        positive: Whether x >= 0; False frees the signs.
        intercept: Whether b and every column are centred over the d coordinates.
        tolerance: The largest relative duality gap of a certified ranking.
        device: Where it solves. On a GPU, everything is in batches on the device, which holds the
            pool; the few questions that are uncertified there are solved on the processor.
        on_uncertified: Whether rankings with a larger gap are an error or a warning. They are
            counted in both cases.
        settings: Number format, batch size and progress bar.

    Raises:
        ValueError: The pool is not a finite float32 matrix, lam is not positive, or on_uncertified
            is neither "warn" nor "error".

    Example:
        >>> pool = np.eye(4, dtype=np.float32)
        >>> ranking = LassoSolver(pool, lam=0.1).rank(np.float32([[0, 0.6, 0, 0.8]]), k=2)
        >>> ranking.indices, ranking.scores
        (array([[3, 1]]), array([[0.7, 0.5]], dtype=float32))
    """

    def __init__(
        self,
        pool: NDArray[np.float32],
        lam: float = 1e-6,
        positive: bool = True,
        *,
        intercept: bool = False,
        tolerance: float = TOLERANCE,
        device: str = "cpu",
        on_uncertified: OnUncertified = "warn",
        settings: SolverSettings | None = None,
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
        self.tolerance, self.settings = tolerance, settings or SolverSettings()
        self.on_uncertified: OnUncertified = on_uncertified
        self.pool = PoolProducts(pool, centred=intercept)
        dtype = self.settings.screening or torch.float32
        self._screening = Screening(self.pool, self.lam, positive=positive, dtype=dtype)
        self._local = threading.local()
        self._batched: BatchedSolver | None = None
        if torch.device(device).type != "cpu":
            # On a processor it takes 7 to 10 times as long as the compiled working sets.
            self._batched = BatchedSolver(self.pool, self._screening, device, tolerance)

    def rank(
        self,
        vectors: NDArray[np.float32],
        k: int = 21,
        exclude: Sequence[Sequence[int]] | None = None,
    ) -> Ranking:
        """Ranks the pool for each question.

        Args:
            vectors: (B, d) float32, the questions' b. A zero vector has no score over 0.
            k: Length of the rankings, at least 1.
            exclude: For each question the rows of the pool that it must not use, such as its own
                duplicates.

        Returns:
            The k best rows of each question, with scores and duality gaps.

        Raises:
            ValueError: Vectors have another size or are not finite, or fewer than k rows are left.
            UncertifiedError: Rankings are uncertified and on_uncertified is "error".
        """
        self._check(vectors, k, exclude)
        size, rounds = len(vectors), 0
        ranking = Ranking(np.zeros((size, k), np.int64), tolerance=self.tolerance)
        with Progress(disable=not self.settings.progress, transient=True) as bar:
            task = bar.add_task("ranking questions", total=size)
            for done, rounds_of_one in self._solve_all(vectors, exclude, ranking):
                rounds = max(rounds, rounds_of_one)
                bar.advance(task, done)
        gaps = reported_gaps(ranking.gap, self.tolerance)
        ranking = replace(ranking, gap=gaps, rounds=rounds)
        ranking.report_uncertified(self.on_uncertified)
        return ranking

    def _solve_all(
        self,
        vectors: NDArray[np.float32],
        exclude: Sequence[Sequence[int]] | None,
        ranking: Ranking,
    ) -> Iterator[tuple[int, int]]:
        """Solves all questions where the device is, see `_solve`."""
        if self._batched is None:
            yield from self._solve(self._questions(vectors, exclude, range(len(vectors))), ranking)
            return
        for start in range(0, len(vectors), self.settings.batch_size):
            part = slice(start, start + self.settings.batch_size)
            targets = torch.from_numpy(vectors[part].astype(np.float64))
            if self.intercept:
                targets -= targets.mean(dim=1, keepdim=True)
            rows = [()] * len(targets) if exclude is None else exclude[part]
            excluded = [torch.tensor(list(one), dtype=torch.int64) for one in rows]
            padded = pad_sequence(excluded, batch_first=True, padding_value=-1)
            found = self._batched.rank(targets, padded, ranking.indices.shape[1])
            indices, scores, gaps, support, rounds = (one.numpy() for one in found)
            ranking.indices[part], ranking.scores[part] = indices, scores
            ranking.gap[part], ranking.support[part] = gaps, support
            uncertified = np.flatnonzero(~(gaps <= self.tolerance))  # or nan
            yield len(targets) - len(uncertified), int(rounds.max())
            waiting = self._questions(vectors, exclude, (start + uncertified).tolist())
            yield from self._solve(waiting, ranking)

    def _solve(self, waiting: Iterator[Question], ranking: Ranking) -> Iterator[tuple[int, int]]:
        """Solves questions pass by pass and writes their rankings.

        Yields:
            How many questions are finished since the pass before, and the most passes of one.
        """
        active = list[Question]()
        with SingleThreads() as threads:
            while True:
                # New questions replace the finished ones at once, so that passes stay full.
                active += islice(waiting, self.settings.batch_size - len(active))
                if not active:
                    break
                found = self._screening.search(active, ranking.indices.shape[1])
                rounds = max(question.rounds for question in active)
                unsolved = self._write_finished(active, found, ranking)
                done = len(active) - len(unsolved)
                jobs = [
                    (active[at], found.values[at].numpy(), found.rows[at].numpy())
                    for at in unsolved
                ]
                active = [question for question, _, _ in jobs]
                threads.share(lambda job: self._improve(*job), jobs)
                yield done, rounds

    def _questions(
        self,
        vectors: NDArray[np.float32],
        exclude: Sequence[Sequence[int]] | None,
        numbers: Iterable[int],
    ) -> Iterator[Question]:
        """Some questions at x = 0, one after another: `vectors` may be memory-mapped."""
        # With free signs, most correlations lie within the bfloat16 error of lam, so products are
        # float32.
        needs_float32 = not self.positive
        for number in numbers:
            target = vectors[number].astype(np.float64)
            if self.intercept:
                target -= target.mean()
            rows = np.array([] if exclude is None else list(exclude[number]), dtype=np.int64)
            yield Question(
                number, self.lam, target, rows, residual=target, needs_float32=needs_float32
            )

    def _write_finished(
        self, questions: Sequence[Question], found: PassResult, ranking: Ranking
    ) -> list[int]:
        """Writes the rankings that a pass certified or that end uncertified.

        Returns the positions of the others.
        """
        unsolved, gaps = [], self._screening.gaps(questions, found)
        for at, question in enumerate(questions):
            ends = question.rounds >= _MAX_ROUNDS or question.failures >= _MAX_FAILURES
            if gaps[at] <= self.tolerance or ends:
                # The dual is at least 0, so no gap is over 1.
                ranking.gap[question.number] = min(gaps[at], 1.0)
                self._write(ranking, question, found.values[at], found.rows[at])
            else:
                unsolved.append(at)
        return unsolved

    def _improve(self, question: Question, found: NDArray[np.float32], listed: Ints) -> None:
        """Solves a question with the columns that a pass found.

        It also sets the accuracy of the next steps: certifying starts when a pass misses few
        columns. Where signs are free, a solution has hundreds of columns, and with a small lam poor
        ones would enter before good ones are known. There lam falls in steps.
        """
        screening = self._screening
        dtype = torch.float32 if question.certifying else screening.dtype
        error = self.pool.typical_error(dtype) * float(np.linalg.norm(question.residual))
        # Only columns over lam by more than the rounding of the pass count as missed.
        missed = listed[found > question.lam + error]
        limit = max(_FEW_MISSED, _FEW_MISSED_SHARE * len(question.columns))
        # Rejected columns may be listed again. The first bound is cheap, the second one exact.
        few = len(missed) <= limit + len(question.rejected)
        few = few and len(set(missed.tolist()) - set(question.rejected.tolist())) <= limit
        if not self.positive and (question.rounds == 1 or (few and question.lam > self.lam)):
            before = float(found[0]) if question.rounds == 1 else question.lam
            question.lam = max(self.lam, before / _LAM_STEP)
        elif few or question.rounds >= _CERTIFY_AFTER:
            question.certifying = True
        # A working set has large buffers, so each thread keeps one.
        if not hasattr(self._local, "working_set"):
            self._local.working_set = WorkingSet(self.pool, positive=self.positive)
        candidates = found > question.lam - error - screening.margin(question)
        # The list is longer than what a pass adds: the rest serves rankings and certificates.
        candidates[screening.columns_per_pass :] = False
        self._local.working_set.improve(question, listed[candidates], found[candidates])

    def _write(self, ranking: Ranking, question: Question, values: Tensor, rows: Tensor) -> None:
        """Writes the best k rows: by coefficient, then by correlation with the residual.

        values, rows: What the last pass listed outside the solution, (m,).
        """
        k = ranking.indices.shape[1]
        order = np.argsort(-question.weights, kind="stable")
        columns, weights = question.columns[order], question.weights[order]
        support = int((weights > 0).sum())
        # The last pass is of no use here if it looked at magnitudes or did not list enough.
        if support < k and not (self.positive and k - support <= len(rows)):
            number = min(k, len(self.pool))
            residual = stacked_residuals([question])
            found = self._screening.largest(
                [question], residual, number, torch.float32, signed=True
            )
            values, rows = found[0][0], found[1][0]
        outside = rows[values > -torch.inf].numpy()
        # Columns with negative coefficients come last.
        best = np.concatenate([columns[:support], outside, columns[support:]])[:k]
        support = min(support, k)
        ranking.indices[question.number] = best
        ranking.scores[question.number, :support] = weights[:support]
        ranking.support[question.number] = support

    def _check(
        self, vectors: NDArray[np.float32], k: int, exclude: Sequence[Sequence[int]] | None
    ) -> None:
        """Raises ValueError for arguments of `rank` that are out of range."""
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
