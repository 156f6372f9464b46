"""LASSO on the CPU and on a CUDA device, with products in float32, TF32 and bfloat16."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from lasso_pools import clustered
from scipy.optimize import lsq_linear

from devices import on_devices
from ivqa.lasso import LassoSolver, SolverSettings, screening
from ivqa.lasso.pool_products import PoolProducts

LAM = 0.05


@pytest.fixture(params=["highest", "high", "medium"])
def float32_precision(request: pytest.FixtureRequest) -> Iterator[str]:
    """What torch may do to float32 factors: nothing, TF32 or bfloat16."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(before)


@on_devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rankings_are_those_of_bounded_least_squares(
    device: str,
    dtype: torch.dtype,
    float32_precision: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    pool, vectors = clustered(300, 48, rng), clustered(6, 48, rng)
    monkeypatch.setattr(screening, "_MIN_COLUMNS_PER_PASS", 16)
    settings = SolverSettings(screening=dtype)
    found = LassoSolver(pool, LAM, device=device, settings=settings).rank(vectors, k=300)
    assert (found.gap <= 1e-6).all()
    for row, vector in enumerate(vectors.astype(np.float64)):
        # With x >= 0 the penalty is linear: one more row, whose entries are small, adds it.
        columns, small = pool.T.astype(np.float64), 1e-4
        extended = np.vstack([columns, np.full((1, 300), small)])
        target = np.append(vector, -LAM / small)
        expected = lsq_linear(extended, target, (0, np.inf), method="bvls", tol=1e-14).x
        x = np.zeros(300)
        x[found.indices[row]] = found.scores[row]
        np.testing.assert_allclose(x, expected, atol=2e-3)


@on_devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_errors_of_products_stay_within_their_bound(
    device: str, dtype: torch.dtype, float32_precision: str
) -> None:
    vectors = np.random.default_rng(1).normal(size=(300, 256)).astype(np.float32)
    pool = PoolProducts(vectors, centred=False)
    unit = torch.nn.functional.normalize(torch.randn(40, 256, dtype=torch.float64), dim=1)
    exact = unit @ pool.rows.double().T
    products = unit.to(device, dtype) @ pool.rows.to(device, dtype).t()
    near = exact.abs() < 0.1
    errors = (products.double().cpu() - exact).abs().where(near, 0).amax(dim=1)
    assert (errors <= pool.error_bound(unit, dtype, 0.1)).all()


@pytest.mark.parametrize(("precision", "bits"), [("high", 10), ("medium", 7)])
def test_the_bound_covers_rounded_float32_factors(precision: str, bits: int) -> None:
    """The factors as a GPU rounds them, with so many bits of the mantissa."""

    def rounded(values: torch.Tensor) -> torch.Tensor:
        mantissa, exponent = torch.frexp(values)
        return torch.ldexp((mantissa * 2 ** (bits + 1)).floor() / 2 ** (bits + 1), exponent)

    # All values just below the next one that the format has: the worst case.
    vectors = np.full((3, 64), 2 - 2.0**-20, np.float32)
    pool = PoolProducts(vectors, centred=False)
    unit = torch.full((1, 64), (1 - 2.0**-21) / 8)
    exact = unit.double() @ pool.rows.double().T
    error = (rounded(unit).double() @ rounded(pool.rows).double().T - exact).abs().max()
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        bound = float(pool.error_bound(unit, torch.float32, 0.1))
    finally:
        torch.set_float32_matmul_precision(before)
    assert 0.4 * bound < error <= bound
