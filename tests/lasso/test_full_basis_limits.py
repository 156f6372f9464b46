"""When the full basis stops, and how many pivots it may take."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ivqa.lasso.full_basis import FullBasis, _Progress
from ivqa.lasso.settings import SolverSettings


class _Pool:
    dimensions = 1000
    settings = SolverSettings()

    def __len__(self) -> int:
        return 50


def _basis() -> FullBasis:
    pool: Any = _Pool()
    return FullBasis(pool, 0.5, positive=True)


@pytest.mark.parametrize(
    ("room", "most"),
    [(0, 0), (10, 10_000), (2000, 250_000)],  # 1000 a column, at most 5e11 / (room * dimensions)
)
def test_pivots_are_limited_by_columns_and_by_multiplications(room: int, most: int) -> None:
    assert _basis()._max_pivots(room) == most


@pytest.mark.parametrize(
    ("values", "rounds", "continues"),
    [([0.4, 0.3], 1, False), ([0.6, 0.3], 1, True), ([0.6, 0.3], 100, False)],
)
def test_a_question_continues_while_a_column_is_over_lam(
    values: list[float], rounds: int, continues: bool
) -> None:
    question: Any = SimpleNamespace(columns=np.arange(0))
    one = _Progress(question, np.array([7, 9]), lam=0.5, rounds=rounds)
    assert _basis()._join(one, np.array(values), np.array([3, 4])) is continues
    assert one.rows.tolist() == ([7, 9, 3] if continues else [7, 9])


def test_lam_falls_tenfold_to_its_value() -> None:
    question: Any = SimpleNamespace(columns=np.arange(0))
    one = _Progress(question, np.array([7]), lam=20.0)
    weights = []
    for _ in range(3):
        assert _basis()._join(one, np.zeros(1), np.array([3])) or one.lam == 0.5
        weights.append(one.lam)
    assert weights == [2.0, 0.5, 0.5]
