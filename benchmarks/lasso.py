"""Claim: LASSO rankings at least 35 times as fast as other solvers, 5 times with signed weights.

Certified rankings of real questions; 5 times is for the signed weights and intercept of the papers.

About 40,000 questions of VQA v2 and DAQUAR are the pool, others the main questions. Vectors of 384
dimensions are tf-idf with a truncated SVD. Vectors of 4800 dimensions come from GRUs of the shape
of skip-thoughts with random weights, initialised in two ways: the arithmetic is that of
skip-thoughts, the geometry is not.

Our solver is timed twice: with products with the pool in float32, and in bfloat16 as far as its
rounding allows (where the processor has it). A row names the time that a peer is compared with.
"passes" is the number of products with the whole pool a question. "of these" is our time over the
time of these products, "of all products" over theirs and that of Gram matrices.

Peers get the columns in float64 and in memory, one main question after another, until their time is
up. The claim compares with the fastest median among them. Every gap is (primal - dual) / primal
over the whole pool in float64; "excess" is the objective over the lowest that any solver found.
"""

import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.lasso_peers import peer_results, relative_gap
from benchmarks.sentence_vectors import sentence_vectors
from ivqa.device import fastest_dtype
from ivqa.lasso import SolverSettings
from ivqa.lasso.pool_products import PoolProducts
from ivqa.ranking import LassoRanker, Ranking
from ivqa.runs.memory import keep_freed_memory


@dataclass(frozen=True)
class Problem:
    """One group of rows.

    Attributes:
        name: The name in the table.
        size: Dimensions of the vectors.
        questions: Main questions that our solver ranks.
        peers: The other solvers, and the seconds that each gets.
        lam: Weight of |x|_1.
        positive: Whether x >= 0.
        intercept: Whether vectors are centred.
        start: Initialisation of the GRUs, see benchmarks.sentence_vectors.
        screening: Number formats that our solver is timed with.
    """

    name: str
    size: int
    questions: int
    peers: dict[str, float]
    lam: float = 1e-6
    positive: bool = True
    intercept: bool = False
    start: str = "orthogonal"
    screening: tuple[torch.dtype, ...] = tuple({torch.float32, fastest_dtype()})


PROBLEMS = (
    Problem(
        "non-negative",
        384,
        1024,
        {"scikit-learn": 20, "scikit-learn LARS": 20, "celer": 20, "skglm": 20, "scipy nnls": 20},
    ),
    Problem(
        "non-negative",
        4800,
        1024,
        {"scikit-learn": 40, "scikit-learn LARS": 40, "celer": 60, "skglm": 60, "scipy nnls": 40},
    ),
    Problem(
        "non-negative, uniform start",
        4800,
        1024,
        {"scikit-learn LARS": 40, "celer": 60, "skglm": 60},
        start="uniform",
    ),
    Problem(
        "published: signed, intercept",
        4800,
        64,
        {"scikit-learn, defaults": 60, "celer": 40, "skglm": 40},
        lam=4.8e-3,
        positive=False,
        intercept=True,
    ),
    Problem(
        "signed", 384, 32, {"celer": 30, "skglm": 30}, positive=False, screening=(torch.float32,)
    ),
)


class ProductTimes:
    """Measures products with a pool, and Gram matrices, in each of the threads that share them.

    Args:
        pool: The products of a ranker; its methods are replaced by timed ones.
    """

    def __init__(self, pool: PoolProducts) -> None:
        self._multiply, self._gram = pool.multiply, pool.gram
        pool.multiply, pool.gram = self.multiply, self.gram  # type: ignore[method-assign]
        self.clear()

    def clear(self) -> None:
        """Sets all times to zero."""
        self.seconds, self.multiplied = defaultdict[int, float](float), defaultdict[int, int](int)
        self.gram_seconds = defaultdict[int, float](float)

    def multiply(self, vectors: Tensor, start: int, stop: int, thread: int) -> Tensor:
        """The pool's `multiply`, timed."""
        begin = time.perf_counter()
        result = self._multiply(vectors, start, stop, thread)
        self.seconds[thread] += time.perf_counter() - begin
        self.multiplied[thread] += len(vectors) * (stop - start)
        return result

    def gram(self, columns: Tensor, first: int) -> Tensor:
        """The pool's `gram`, timed."""
        begin = time.perf_counter()
        result = self._gram(columns, first)
        self.gram_seconds[threading.get_ident()] += time.perf_counter() - begin
        return result


@dataclass
class Run:
    """A timed ranking.

    Attributes:
        ranking: The ranking.
        seconds: Its time.
        products: Seconds of products with the pool, per thread.
        grams: Seconds of Gram matrices, per thread.
        passes: Products with the whole pool, per question.
    """

    ranking: Ranking
    seconds: float
    products: float
    grams: float
    passes: float


def timed_run(
    problem: Problem,
    pool: NDArray[np.float32],
    vectors: NDArray[np.float32],
    settings: SolverSettings,
    k: int = 21,
) -> Run:
    """Ranks, after a warm-up on a few main questions that allocates the buffers.

    Args:
        problem: What is solved.
        pool: (N, d) float32.
        vectors: (B, d) float32, of the main questions.
        settings: Of the solver, with the number format.
        k: Length of the rankings.
    """
    ranker = LassoRanker(
        pool, problem.lam, problem.positive, intercept=problem.intercept, settings=settings
    )
    timed = ProductTimes(ranker.pool)
    ranker.rank(vectors[-8:], k)
    timed.clear()
    begin = time.perf_counter()
    ranking = ranker.rank(vectors, k)
    seconds = time.perf_counter() - begin
    passes = sum(timed.multiplied.values()) / len(pool) / len(vectors)
    products, grams = (
        sum(spent.values()) / torch.get_num_threads()
        for spent in (timed.seconds, timed.gram_seconds)
    )
    return Run(ranking, seconds, products, grams, passes)


def run() -> list[dict[str, Any]]:
    """Rows of RESULTS.md, ours and the peers' for each problem."""
    keep_freed_memory()  # as every command does
    return [row for problem in PROBLEMS for row in _rows(problem)]


def _rows(problem: Problem) -> list[dict[str, Any]]:
    pool, vectors, _ = sentence_vectors(problem.size, start=problem.start)
    pool, vectors = np.array(pool), vectors[: problem.questions]
    runs = {
        _name(screening): timed_run(problem, pool, vectors, SolverSettings(screening=screening))
        for screening in problem.screening
    }
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "pool.npy", pool)
        np.save(Path(folder) / "main.npy", vectors)
        solved = {
            peer: peer_results(
                peer,
                Path(folder),
                lam=problem.lam,
                positive=problem.positive,
                intercept=problem.intercept,
                seconds=seconds,
            )
            for peer, seconds in problem.peers.items()
        }
    lowest = _lowest_objectives(problem, pool, vectors, solved)
    ours = [_ours(problem, name, run, len(pool)) for name, run in runs.items()]
    times = {name: run.seconds / len(vectors) for name, run in runs.items()}
    return ours + [_peer(problem, peer, done, times, lowest) for peer, done in solved.items()]


def _name(dtype: torch.dtype | None) -> str:
    return "bfloat16" if dtype == torch.bfloat16 else "float32"


def _ours(problem: Problem, name: str, run: Run, rows: int) -> dict[str, Any]:
    size = len(run.ranking.gap)
    large = run.products * 186_027 / rows + run.seconds - run.products
    return {
        "problem": f"{problem.name}, {problem.size}",
        "solver": f"ivqa, {name}",
        "questions": size,
        "ms a question": round(1e3 * run.seconds / size, 2),
        "questions/s": round(size / run.seconds, 1),
        "largest gap": f"{run.ranking.gap.max():.0e}",
        "passes": round(run.passes, 2),
        "of these": round(run.seconds / run.products, 2),
        "of all products": round(run.seconds / (run.products + run.grams), 2),
        "186,027 x 244,302, h": round(large * 244_302 / size / 3600, 1),
    }


def _peer(
    problem: Problem,
    peer: str,
    solved: list[dict[str, float]],
    times: dict[str, float],
    lowest: NDArray[np.float64],
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "problem": f"{problem.name}, {problem.size}",
        "solver": peer,
        "questions": len(solved),
    }
    if not solved:
        return row | {"ms a question": f"> {1e3 * problem.peers[peer]:.0f}"}
    seconds = float(np.median([one["seconds"] for one in solved]))
    excess = np.array([one["primal"] for one in solved]) / lowest[: len(solved)] - 1
    row["ms a question"] = round(1e3 * seconds)
    row["largest gap"] = f"{max(one['gap'] for one in solved):.0e}"
    row["excess"] = f"{excess.max():.0e}"
    return row | {f"ratio to {name}": round(seconds / time, 1) for name, time in times.items()}


def _lowest_objectives(
    problem: Problem,
    pool: NDArray[np.float32],
    vectors: NDArray[np.float32],
    solved: dict[str, list[dict[str, float]]],
) -> NDArray[np.float64]:
    """The lowest objectives of the first main questions: of the peers, and ours where x >= 0.

    A ranking with free signs does not return negative coefficients, so its objective is unknown.
    """
    most = max(len(done) for done in solved.values())
    lowest = np.full(most, np.inf)
    for done in solved.values():
        primal = np.array([one["primal"] for one in done])
        lowest[: len(done)] = np.minimum(lowest[: len(done)], primal)
    if problem.positive and most:
        found = LassoRanker(pool, problem.lam).rank(vectors[:most], k=min(512, len(pool)))
        for row, (columns, scores) in enumerate(zip(found.indices, found.scores, strict=True)):
            a, b = pool[columns].T.astype(np.float64), vectors[row].astype(np.float64)
            _, primal = relative_gap(a, b, scores.astype(np.float64), problem.lam, True)
            lowest[row] = min(lowest[row], primal)
    return lowest
