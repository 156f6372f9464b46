"""The LASSO inside a working set meets the optimality conditions, whichever method solves it."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ivqa.ranking import active_set
from ivqa.ranking.active_set import solve_in_working_set


def _problems(number: int, size: int, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Gram matrices and correlations of columns that resemble each other, as sentences do."""
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randn(number, rows, size, generator=generator, dtype=torch.float64)
    columns += torch.randn(number, rows, 1, generator=generator, dtype=torch.float64)
    columns /= columns.norm(dim=1, keepdim=True)
    target = torch.randn(number, rows, 1, generator=generator, dtype=torch.float64)
    target += columns[:, :, :3].sum(dim=2, keepdim=True)
    transposed = columns.transpose(1, 2)
    return transposed @ columns, (transposed @ target)[:, :, 0]


def _assert_optimal(
    gram: Tensor, correlations: Tensor, x: Tensor, lam: float, positive: bool
) -> None:
    gradient = correlations - torch.einsum("bpq,bq->bp", gram, x)
    key = gradient if positive else gradient.abs()
    assert float(key[torch.isfinite(correlations)].max()) <= lam * (1 + 1e-6) + 1e-13
    inside = x != 0
    np.testing.assert_allclose(gradient[inside], lam * x[inside].sign(), atol=1e-12)
    assert not positive or (x >= 0).all()


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("lam", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("rows", [12, 60])  # fewer and more than the 40 variables
@pytest.mark.parametrize("patience", [3, -2])  # -2: the cautious method solves all
def test_solutions_are_optimal(
    positive: bool, lam: float, rows: int, patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_set, "_PATIENCE", patience)
    gram, correlations = _problems(9, 40, rows, 0)
    correlations[:, 7] = -torch.inf
    found = solve_in_working_set(
        gram, correlations, torch.full((9,), lam).double(), positive=positive
    )
    assert (found[:, 7] == 0).all()
    _assert_optimal(gram, correlations, found, lam, positive)


@pytest.mark.parametrize("patience", [3, -2])
def test_equal_columns_share_or_stay_out(patience: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(active_set, "_PATIENCE", patience)
    gram, correlations = _problems(6, 20, 30, 1)
    twice = torch.arange(20).repeat(2)
    gram, correlations = gram[:, twice][:, :, twice], correlations[:, twice]
    found = solve_in_working_set(gram, correlations, torch.full((6,), 1e-6).double(), positive=True)
    gradient = correlations - torch.einsum("bpq,bq->bp", gram, found)
    assert float(gradient.max()) <= 1e-6 * (1 + 1e-5)
    once = solve_in_working_set(
        gram[:, :20, :20], correlations[:, :20], torch.full((6,), 1e-6).double(), positive=True
    )
    np.testing.assert_allclose(found.view(6, 2, 20).sum(dim=1), once, atol=1e-9)


@pytest.mark.parametrize("patience", [3, -2])
def test_a_warm_start_changes_nothing_but_the_work(
    patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_set, "_PATIENCE", patience)
    gram, correlations = _problems(5, 30, 50, 2)
    lam = torch.full((5,), 1e-3, dtype=torch.float64)
    half = correlations.clone()
    half[:, 15:] = -torch.inf
    start = solve_in_working_set(gram, half, lam, positive=True)
    warm = solve_in_working_set(gram, correlations, lam, positive=True, start=start)
    cold = solve_in_working_set(gram, correlations, lam, positive=True)
    np.testing.assert_allclose(warm, cold, atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_a_start_on_dependent_columns_ends_no_worse(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_set, "_PATIENCE", -2)
    gram, correlations = _problems(9, 60, 12, seed)
    start = torch.rand(9, 60, generator=torch.Generator().manual_seed(seed)).double()
    start[:, 40:] = 0
    lam = torch.full((9,), 1e-6, dtype=torch.float64)
    found = solve_in_working_set(gram, correlations, lam, positive=True, start=start)
    _assert_optimal(gram, correlations, found, 1e-6, positive=True)
