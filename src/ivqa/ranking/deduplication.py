"""Near-duplicates in a pool: vectors whose cosine exceeds a threshold."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.lasso.ranking import Ranking
from ivqa.ranking.score_ranking import Excluded

_BLOCK = 1024  # rows that are compared with as many others: 4 MB of cosines
_DIRECTIONS = 64  # of the projection: enough to tell most pairs apart, and cheap
_SAMPLE = 4096  # least number of rows for the directions, if there are as many
_ROUNDING = 1e-4  # more than the rounding of a product of float32 unit vectors


def near_duplicates(vectors: NDArray[np.float32], threshold: float) -> NDArray[np.int64]:
    """Groups the rows whose cosine with an earlier row exceeds a threshold.

    Rows are visited in order. A row whose cosine with a row kept before exceeds the threshold
    joins that row's group, the earliest of several; otherwise it is kept. A projection on a few
    directions can only shorten distances, so most pairs are ruled out there with 64 multiplications
    each, and only the others are compared in full.

    Args:
        vectors: (N, d) float32 of unit norm; may be memory-mapped. Zero rows are never duplicates.
            The function needs memory for 64 numbers a row and two a pair found.
        threshold: On cosines, in (0, 1).

    Returns:
        For each row the first row of its group, (N,) int64: the row itself where it is kept.

    Raises:
        UserError: The threshold is out of range.

    Example:
        >>> near_duplicates(np.array([[1, 0], [0, 1], [1, 0], [0.8, 0.6]], "f4"), 0.9).tolist()
        [0, 1, 0, 3]
    """
    if not 0 < threshold < 1:
        raise UserError(f"a threshold on cosines must be in (0, 1), not {threshold}")
    first = np.arange(len(vectors))
    for later, earlier in _pairs_over(vectors, threshold):  # pairs are sorted by the later row
        for at in np.flatnonzero(np.diff(later, prepend=0)):  # one step for each later row
            row = later[at]
            partners = earlier[at : np.searchsorted(later, row, side="right")]
            # A row that joined a group does not represent one.
            kept = partners[first[partners] == partners]
            if len(kept):
                first[row] = kept[0]
    return first


@dataclass(frozen=True)
class Distinct:
    """A pool without near-duplicates: the first row of each group represents the group.

    Attributes:
        first: For each row the first row of its group, (N,), from `near_duplicates`.
        rows: The rows kept, (n,).
    """

    first: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, vectors: NDArray[np.float32], threshold: float | None) -> "Distinct":
        """Finds the distinct rows of unit vectors (N, d); threshold None keeps all rows."""
        everything = np.arange(len(vectors))
        first = everything if threshold is None else near_duplicates(vectors, threshold)
        return cls(first, np.flatnonzero(first == everything))

    def select(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The vectors (n, d) of the rows kept; the same array where all rows are kept."""
        return vectors if len(self.rows) == len(vectors) else vectors[self.rows]

    def exclude(self, excluded: Excluded) -> list[list[int]]:
        """Converts excluded rows of the pool to rows among those kept; each excludes its group."""
        # The place of each row's representative among the rows kept.
        place = np.searchsorted(self.rows, self.first)
        return [np.unique(place[list(rows)]).tolist() for rows in excluded]

    def restored(self, ranking: Ranking) -> Ranking:
        """Converts a ranking of the rows kept to rows of the whole pool."""
        return replace(ranking, indices=self.rows[ranking.indices])


def _pairs_over(
    vectors: NDArray[np.float32], threshold: float
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yields sorted pairs (later row, earlier row) over the threshold, by blocks of later rows."""
    left, right = _projected(vectors)
    for start in range(0, len(vectors), _BLOCK):
        block = slice(start, start + _BLOCK)
        found = []
        for other in range(0, start + _BLOCK, _BLOCK):
            # For unit vectors half the squared distance is 1 - cosine; the projection lowers it.
            close = left[block] @ right[other : other + _BLOCK].T > threshold - 1 - _ROUNDING
            later, earlier = np.nonzero(close)
            found.append(np.stack([later + start, earlier + other]))
        later, earlier = np.concatenate(found, axis=1)
        later, earlier = later[earlier < later], earlier[earlier < later]
        over = _cosines(vectors, later, earlier) > threshold
        later, earlier = later[over], earlier[over]
        order = np.lexsort((earlier, later))
        yield later[order], earlier[order]


def _projected(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Two matrices (N, k + 2) whose products are -1/2 |p_i - p_j|^2 of the projected rows p."""
    step = max(len(vectors) // _SAMPLE, 1)
    # Principal axes keep most of a distance, so few pairs are left for the full comparison.
    _, _, axes = np.linalg.svd(np.asarray(vectors[::step]), full_matrices=False)
    projected = np.asarray(vectors) @ axes[:_DIRECTIONS].T
    # p_i . p_j - 1/2 |p_i|^2 - 1/2 |p_j|^2 = -1/2 |p_i - p_j|^2.
    half = -0.5 * (projected**2).sum(axis=1, keepdims=True)
    ones = np.ones_like(half)
    return np.hstack([projected, half, ones]), np.hstack([projected, ones, half])


def _cosines(
    vectors: NDArray[np.float32], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The cosines of n pairs of rows, (n,)."""
    found = np.empty(len(first), dtype=np.float32)
    for start in range(0, len(first), _BLOCK):
        part = slice(start, start + _BLOCK)
        found[part] = np.einsum("nd,nd->n", vectors[first[part]], vectors[second[part]])
    return found
