"""Claim: the papers' job, 186,027 basic x 244,302 main questions at 4800 dimensions, takes hours.

One real run with the papers' pool and as many main questions as ten minutes allow. There are not
enough real questions, so the vectors are those of benchmarks.lasso and mixtures of two of
them with a little noise: 3.6 GB in float32 on disk, memory-mapped. "memory" is the growth of the
process at its peak, the mapped pool included, over the size of the pool. The benchmark runs only
when asked for, best alone on the machine: python -m benchmarks lasso_large
"""

import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from benchmarks.lasso import Problem, timed_run
from benchmarks.sentence_vectors import FOLDER, sentence_vectors
from ivqa.device import fastest_dtype
from ivqa.encoders.encoder import unit_rows
from ivqa.lasso import SolverSettings
from ivqa.runs.memory import keep_freed_memory

ROWS, MAIN_QUESTIONS, SIZE = 186_027, 244_302, 4800
MINUTES, TRIAL = 10.0, 256


def run(
    rows: int = ROWS, size: int = SIZE, minutes: float = MINUTES, trial: int = TRIAL
) -> list[dict[str, Any]]:
    """One row of RESULTS.md.

    Args:
        rows: Size of the pool; a smaller one is a rehearsal.
        size: Dimensions of the vectors.
        minutes: Time of the run.
        trial: Main questions of the run that estimates the speed.
    """
    keep_freed_memory()  # as every command does
    some, vectors, _ = sentence_vectors(size)
    path = FOLDER / f"mixed_{rows}_{size}.npy"
    if not path.is_file():
        _write_mixtures(path, some, rows)
    before = _peak_bytes()
    pool = np.load(path, mmap_mode="r")
    problem = Problem("non-negative", size, 0, {})
    settings = SolverSettings(screening=fastest_dtype())
    start = time.perf_counter()
    timed_run(problem, pool, vectors[:trial], settings)
    rate = trial / (time.perf_counter() - start)
    wanted = max(trial, min(MAIN_QUESTIONS, int(60 * minutes * rate)))
    rng = np.random.default_rng(1)
    targets = np.concatenate([vectors, _mixtures(vectors, max(0, wanted - len(vectors)), rng)])
    with_progress = replace(settings, progress=True)
    run = timed_run(problem, pool, targets[:wanted], with_progress)
    rate = wanted / run.seconds
    return [
        {
            "pool": f"{rows} x {size}",
            "main questions": wanted,
            "minutes": round(run.seconds / 60, 1),
            "questions/s": round(rate, 1),
            "largest gap": f"{run.ranking.gap.max():.0e}",
            "passes": round(run.passes, 2),
            "of these": round(run.seconds / run.products, 2),
            "of all products": round(run.seconds / (run.products + run.grams), 2),
            "244,302 main questions, h": round(MAIN_QUESTIONS / rate / 3600, 2),
            "memory over the pool's": round((_peak_bytes() - before) / pool.nbytes, 2),
        }
    ]


def _write_mixtures(path: Path, some: NDArray[np.float32], rows: int) -> None:
    rng = np.random.default_rng(0)
    unfinished = path.with_suffix(".partial")
    pool = open_memmap(unfinished, "w+", np.float32, (rows, some.shape[1]))
    real = min(rows, len(some))
    pool[:real] = some[:real]
    for at in range(real, rows, 4096):
        pool[at : at + 4096] = _mixtures(some, min(4096, rows - at), rng)
    pool.flush()
    unfinished.rename(path)


def _mixtures(
    vectors: NDArray[np.float32], number: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Unit vectors (number, d), each near a mixture of two of those given."""
    one, two = rng.integers(0, len(vectors), (2, number))
    share = rng.random((number, 1), dtype=np.float32)
    noise = rng.standard_normal((number, vectors.shape[1]), dtype=np.float32)
    mixed = share * vectors[one] + (1 - share) * vectors[two]
    return unit_rows(mixed + 0.2 / vectors.shape[1] ** 0.5 * noise)


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
