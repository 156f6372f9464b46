"""Rankings by a score for each pair of a main and a basic question, a chunk of pairs at a time."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.lasso.ranking import Ranking

_PAIRS_AT_ONCE = 2**19  # 4 MB of scores: metrics need several arrays of that size


def rank_by_scores(
    scores: Callable[[slice], NDArray[np.floating]],
    shape: tuple[int, int],
    k: int,
    exclude: Sequence[Sequence[int]],
    rows_at_once: int | None = None,
) -> Ranking:
    """The k basic questions of highest score, of equal ones the first of the pool.

    scores: from a slice of the main questions to their scores (b, N), which are overwritten.
    shape: (B, N), main questions and the pool. exclude: for each main question the rows of the
    pool that must not be used. rows_at_once: main questions of a slice, by default so few that
    their scores stay in the processor's cache. The gap is zero: nothing is solved.
    Raises ValueError where exclude is of another length or too few rows are left.
    """
    size, pool = shape
    if len(exclude) != size:
        raise ValueError(f"exclude has {len(exclude)} entries for {size} main questions")
    left = pool - max((len(set(rows)) for rows in exclude), default=0)
    if left < k:
        raise UserError(
            f"only {left} questions to rank, but k is {k}; choose fewer or enlarge the pool"
        )
    indices = np.empty((size, k), dtype=np.int64)
    best = np.empty((size, k), dtype=np.float32)
    step = rows_at_once or max(1, _PAIRS_AT_ONCE // max(pool, 1))
    for start in range(0, size, step):
        part = slice(start, min(start + step, size))
        values = scores(part)
        for row, rows in enumerate(exclude[part]):
            values[row, list(rows)] = -np.inf
        indices[part] = best_columns(values, k)
        best[part] = np.take_along_axis(values, indices[part], axis=1)
    return Ranking(indices, best, np.zeros(size), (best > 0).sum(axis=1), 0)


def best_columns(values: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """Columns (B, k) of the k highest values (B, N) of each row, of equal ones the first.

    >>> best_columns(np.array([[1.0, 3.0, 2.0, 3.0, 2.0]]), 3)
    array([[1, 3, 2]])
    """
    place = values.shape[1] - k
    lowest = np.partition(values, place, axis=1)[:, place] if k else np.zeros(len(values))
    columns = np.empty((len(values), k), dtype=np.int64)
    for row, (own, bound) in enumerate(zip(values, lowest, strict=True)):
        candidates = np.flatnonzero(own >= bound)  # ascending, so that a stable sort keeps ties
        columns[row] = candidates[np.argsort(-own[candidates], kind="stable")[:k]]
    return columns
