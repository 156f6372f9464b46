"""Near-duplicates of a pool in feature space."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.lasso.ranking import Ranking

_BLOCK = 1024  # rows compared at once with as many others: 4 MB of cosines
_DIRECTIONS = 64
_SAMPLE = 4096
_ROUNDING = 1e-4  # of a product of float32 unit vectors, and more


def near_duplicates(vectors: NDArray[np.float32], threshold: float) -> NDArray[np.int64]:
    """For each of N rows the first row of its group: (N,), itself where it is kept.

    Rows are visited in order; one whose cosine with a row kept before exceeds the threshold joins
    that row's group, the earliest of several. vectors: (N, d) of unit norm, memory-mapped or not;
    zero rows are no duplicates. Memory beside them: 64 numbers a row, and of each pair found two.

    Distances only shrink in a projection on a few directions, so that most pairs are told apart
    there, at 64 multiplications each, and only the others are compared in full.
    Raises UserError unless 0 < threshold < 1.

    >>> near_duplicates(np.array([[1, 0], [0, 1], [1, 0], [0.8, 0.6]], "f4"), 0.9).tolist()
    [0, 1, 0, 3]
    """
    if not 0 < threshold < 1:
        raise UserError(f"a threshold on cosines must be in (0, 1), not {threshold}")
    first = np.arange(len(vectors))
    for later, earlier in _alike(vectors, threshold):  # pairs in the order of the later row
        for at in np.flatnonzero(np.diff(later, prepend=-1)):  # one look at each later row
            row = later[at]
            partners = earlier[at : np.searchsorted(later, row, side="right")]
            kept = partners[first[partners] == partners]
            if len(kept):
                first[row] = kept[0]
    return first


@dataclass(frozen=True)
class Distinct:
    """A pool without near-duplicates: each group's first row stands for the group.

    first: (N,) of `near_duplicates`. rows: (n,) those kept.
    """

    first: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, vectors: NDArray[np.float32], threshold: float | None) -> "Distinct":
        """Of a pool (N, d); everything is kept where the threshold is None."""
        everything = np.arange(len(vectors))
        first = everything if threshold is None else near_duplicates(vectors, threshold)
        return cls(first, np.flatnonzero(first == everything))

    def select(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The vectors of the rows kept (n, d)."""
        return vectors if len(self.rows) == len(vectors) else vectors[self.rows]

    def exclude(self, excluded: Sequence[Sequence[int]]) -> list[list[int]]:
        """Rows of the whole pool as rows among those kept; a group goes with any of its members."""
        place = np.searchsorted(self.rows, self.first)
        return [np.unique(place[list(rows)]).tolist() for rows in excluded]

    def restored(self, ranking: Ranking) -> Ranking:
        """A ranking of the rows kept as one of rows of the whole pool."""
        return replace(ranking, indices=self.rows[ranking.indices])


def _alike(
    vectors: NDArray[np.float32], threshold: float
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs (later row, earlier row) over the threshold, sorted, a block of later rows at once."""
    left, right = _projected(vectors)
    for start in range(0, len(vectors), _BLOCK):
        block = slice(start, start + _BLOCK)
        found = []
        for other in range(0, start + 1, _BLOCK):
            # Half the squared distance is 1 - cosine for unit vectors, and less in the projection.
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
    """Two matrices (N, k + 2) whose products are minus half the squared distances projected."""
    step = max(len(vectors) // _SAMPLE, 1)
    _, _, axes = np.linalg.svd(np.asarray(vectors[::step]), full_matrices=False)
    starts = range(0, len(vectors), _BLOCK)
    axes = axes[:_DIRECTIONS].T
    parts = [vectors[start : start + _BLOCK] @ axes for start in starts]
    projected = np.concatenate(parts) if parts else np.zeros((0, 1), np.float32)
    half = -0.5 * (projected**2).sum(axis=1, keepdims=True)
    ones = np.ones_like(half)
    return np.hstack([projected, half, ones]), np.hstack([projected, ones, half])


def _cosines(
    vectors: NDArray[np.float32], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float32]:
    found = np.empty(len(first), dtype=np.float32)
    for start in range(0, len(first), _BLOCK):
        part = slice(start, start + _BLOCK)
        found[part] = np.einsum("nd,nd->n", vectors[first[part]], vectors[second[part]])
    return found
