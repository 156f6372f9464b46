"""Rankings by a score of each pair of main and basic question, computed in chunks."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.lasso.ranking import Ranking

_PAIRS_AT_ONCE = 2**19  # 4 MB of float64 scores; metrics need several arrays of that size

Excluded = Sequence[Sequence[int]]
"""For each main question the rows of the pool that must not be used."""


def rank_by_scores(
    scores: Callable[[slice], NDArray[np.floating]],
    shape: tuple[int, int],
    k: int,
    exclude: Excluded,
    rows_at_once: int | None = None,
) -> Ranking:
    """Ranks the pool by score; of equal scores the first rows of the pool count.

    Args:
        scores: Maps a slice of b main questions to their scores (b, N), numbers without NaN.
            Floats are overwritten.
        shape: (B, N), the number of main questions and of basic questions.
        k: Length of the rankings, at least 1.
        rows_at_once: Main questions of a slice; None takes so few that their scores stay in the
            processor's cache.

    Returns:
        The k best rows of each main question. The gap is 0, because no problem is solved.

    Raises:
        ValueError: `exclude` does not have B entries.
        UserError: Fewer than k rows are left, or scores have another shape or are not finite.

    Example:
        >>> table = np.array([[0.5, 0.0, 1.0, 0.5]])
        >>> rank_by_scores(lambda part: table[part].copy(), (1, 4), 3, exclude=[[2]]).indices
        array([[0, 3, 1]])
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
    step = rows_at_once or max(1, _PAIRS_AT_ONCE // pool)
    for start in range(0, size, step):
        part = slice(start, min(start + step, size))
        values = _checked(scores(part), (part.stop - part.start, pool))
        for row, rows in enumerate(exclude[part]):
            values[row, list(rows)] = -np.inf
        indices[part] = best_columns(values, k)
        best[part] = np.take_along_axis(values, indices[part], axis=1)
    if not np.isfinite(best).all():
        raise UserError("a ranker's scores must be finite")
    return Ranking(indices, best)


def _checked(values: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.floating]:
    """Scores as floats that may be overwritten; raises UserError if they are not (b, N) numbers."""
    values = np.asarray(values)
    if values.shape != shape or values.dtype.kind not in "biuf" or np.isnan(values.max()):
        raise UserError(
            f"a ranker's scores for {shape[0]} questions and a pool of {shape[1]} must be numbers "
            f"of shape {shape} without NaN, not {values.dtype} of shape {values.shape}"
        )
    return values if values.dtype.kind == "f" else values.astype(np.float64)


def best_columns(values: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """The columns of the k highest values of each row; of equal values the first columns count.

    Args:
        values: (B, N).
        k: From 1 to N.

    Returns:
        Columns (B, k) int64, highest value first.

    Example:
        >>> best_columns(np.array([[1.0, 3.0, 2.0, 3.0, 2.0]]), 3)
        array([[1, 3, 2]])
    """
    # A partition puts the k-th highest value of each row at `place`.
    place = values.shape[1] - k
    lowest = np.partition(values, place)[:, place]
    columns = np.empty((len(values), k), dtype=np.int64)
    for row, (own, bound) in enumerate(zip(values, lowest, strict=True)):
        candidates = np.flatnonzero(own >= bound)  # ascending: a stable sort keeps ties in order
        columns[row] = candidates[np.argsort(-own[candidates], kind="stable")[:k]]
    return columns
