"""Random pools of several kinds, and an independent certificate of LASSO solutions."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import Tensor

from ivqa.lasso.working_set import Question
from ivqa.ranking import LassoRanker, Ranking

Solutions = dict[int, NDArray[np.float64]]


def unit(vectors: NDArray) -> NDArray[np.float32]:
    """Rows of length 1."""
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def isotropic(rows: int, size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Unit vectors whose directions are uniformly distributed."""
    return unit(rng.normal(size=(rows, size)))


def clustered(
    rows: int,
    size: int,
    rng: np.random.Generator,
    noise: float = 0.7,
    centres: NDArray | None = None,
) -> NDArray[np.float32]:
    """Unit centres, fewer than dimensions, plus noise of length `noise`."""
    if centres is None:
        centres = isotropic(max(4, size * 3 // 4), size, np.random.default_rng(7))
    own = centres[rng.integers(0, len(centres), rows)]
    return unit(own + noise / size**0.5 * rng.normal(size=(rows, size)))


def duplicated(rows: int, size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Each of a few rows many times."""
    return isotropic(max(1, rows // 8), size, rng)[rng.integers(0, max(1, rows // 8), rows)]


def low_rank(rows: int, size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Rows in a subspace of a quarter of the dimensions, up to the rounding of float32."""
    directions = np.random.default_rng(8).normal(size=(size // 4, size))
    return unit(rng.normal(size=(rows, size // 4)) @ directions)


KINDS: dict[str, Callable[..., NDArray[np.float32]]] = {
    one.__name__: one for one in (isotropic, clustered, duplicated, low_rank)
}


def solutions(
    ranker: LassoRanker, vectors: NDArray[np.float32], monkeypatch: pytest.MonkeyPatch, k: int = 5
) -> tuple[Ranking, Solutions]:
    """A ranking, and the whole x (N,) of each main question."""
    found, write = {}, LassoRanker._write

    def watched(
        self: LassoRanker, ranking: Ranking, question: Question, values: Tensor, rows: Tensor
    ) -> None:
        x = np.zeros(len(self.pool))
        np.add.at(x, question.columns, question.weights)
        found[question.number] = x
        write(self, ranking, question, values, rows)

    monkeypatch.setattr(LassoRanker, "_write", watched)
    return ranker.rank(vectors, k), found


def objective_and_bound(
    pool: NDArray,
    vector: NDArray,
    x: NDArray[np.float64],
    lam: float,
    positive: bool,
    intercept: bool,
) -> tuple[float, float]:
    """The objective at x, and a lower bound on its minimum that is computed from x alone.

    The bound is the dual at the longest feasible multiple of the residual that is no longer than
    the residual itself. Both are in extended precision, because at lam = 1e-8 the rounding of
    float64 is visible.
    """
    inside = np.flatnonzero(x)
    a, b = pool.astype(np.longdouble), vector.astype(np.longdouble)
    if intercept:
        a, b = a - a.mean(axis=1, keepdims=True), b - b.mean()
    residual = b - x[inside].astype(np.longdouble) @ a[inside]
    correlations = a @ residual
    largest = correlations.max() if positive else np.abs(correlations).max()
    dual = residual * min(1, lam / largest) if largest > 0 else residual
    objective = residual @ residual / 2 + lam * np.abs(x).sum()
    return float(objective), float(b @ dual - dual @ dual / 2)
