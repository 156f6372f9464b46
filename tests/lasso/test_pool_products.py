import numpy as np
import pytest
import torch

from ivqa.lasso import pool_products
from ivqa.lasso.pool_products import PoolProducts


def _pool(rows: int, size: int) -> PoolProducts:
    vectors = np.random.default_rng(0).normal(size=(rows, size)).astype(np.float32)
    return PoolProducts(vectors, centred=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("number", [1, 40, 900])
@pytest.mark.parametrize("magnitude", [True, False])
def test_the_largest_are_those_of_the_whole_product(
    dtype: torch.dtype, number: int, magnitude: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_products, "_CHUNK_BYTES", 2**16)
    monkeypatch.setattr(pool_products, "_PRODUCT_BYTES", 2**12)
    pool = _pool(900, 32)
    vectors = torch.randn(5, 32, generator=torch.manual_seed(1)).double()
    masked = torch.tensor([0, 0, 3]), torch.tensor([899, 7, 7])
    values, rows = pool.largest(vectors, number, masked, magnitude=magnitude, dtype=dtype)
    product = (vectors.to(dtype) @ pool.rows.to(dtype).T).float()
    product = product.abs() if magnitude else product
    product[masked] = -torch.inf
    wanted = product.sort(dim=1, descending=True, stable=True)
    torch.testing.assert_close(values, wanted.values[:, :number])
    found = values > -torch.inf
    torch.testing.assert_close(product.gather(1, rows)[found], values[found])
    if number > 1:
        assert found.sum(dim=1).tolist() == [min(number, 900 - n) for n in (2, 0, 0, 1, 0)]


def test_only_products_over_the_least_value_count() -> None:
    pool, vectors = _pool(900, 32), torch.randn(3, 32, generator=torch.manual_seed(2)).double()
    nothing = torch.zeros(2, 0, dtype=torch.int64).unbind()
    least = torch.tensor([3.0, -2.0, -torch.inf])
    values, _ = pool.largest(
        vectors, 900, nothing, magnitude=False, dtype=torch.float32, least=least
    )
    product = vectors.float() @ pool.rows.T
    assert (values > -torch.inf).sum(dim=1).tolist() == (product > least[:, None]).sum(1).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_rounding_error_exceeds_the_bound(dtype: torch.dtype) -> None:
    pool = _pool(300, 64)
    lost = pool.rows - pool.rows.bfloat16()
    # Random vectors, and the worst: those along the rounding error of a row, or nearly so.
    vectors = torch.cat([torch.randn(50, 64), lost, lost.bfloat16().float()]).double()
    vectors = vectors / vectors.norm(dim=1, keepdim=True)
    products = torch.mm(vectors.to(dtype), pool.rows.to(dtype).T).double()
    exact = vectors @ pool.rows.double().T
    near = exact.abs() < 0.1
    errors = (products - exact).abs().where(near, 0).amax(dim=1)
    bound = pool.error_bound(vectors, dtype, 0.1)
    assert (errors <= bound).all()
    if dtype == torch.bfloat16:
        assert (errors / bound).max() > 0.5  # the bound is tight


def test_products_one_by_one_are_exact() -> None:
    pool, vectors = _pool(50, 16), torch.randn(4, 16, dtype=torch.float64)
    rows, which = torch.tensor([3, 3, 49, 0, 7]), torch.tensor([0, 3, 3, 1, 2])
    wanted = (pool.rows[rows].double() * vectors[which]).sum(dim=1)
    torch.testing.assert_close(pool.products(rows, vectors, which), wanted)
    assert len(pool.products(rows[:0], vectors, which[:0])) == 0


@pytest.mark.parametrize("centred", [True, False])
def test_unexplained_vectors_are_residuals_of_the_ridge_regression(centred: bool) -> None:
    rng = np.random.default_rng(3)
    common = rng.normal(size=(2, 64))
    rows = rng.normal(size=(400, 2)) @ common + 0.1 * rng.normal(size=(400, 64)) + 0.5
    pool = PoolProducts(rows.astype(np.float32), centred=centred)
    vectors = torch.from_numpy(common + 0.5 + 0.3 * rng.normal(size=(2, 64)))
    vectors -= vectors.mean(dim=1, keepdim=True) if centred else 0
    left = pool.unexplained(vectors)
    sample = torch.from_numpy(rows[np.linspace(0, 399, 8).astype(int)])
    sample -= sample.mean(dim=1, keepdim=True) if centred else 0
    ridge = 1e-2 * sample.square().sum(dim=1).mean()
    weights = torch.linalg.lstsq(sample.t(), (vectors - left).t()).solution
    torch.testing.assert_close(left @ sample.t(), ridge * weights.t(), atol=1e-4, rtol=1e-4)
    # The common part of all rows is removed.
    assert (left.norm(dim=1) < 0.5 * vectors.norm(dim=1)).all()


def test_a_small_pool_and_a_pool_of_zeros_explain_nothing() -> None:
    vectors = torch.randn(3, 4).double()
    torch.testing.assert_close(_pool(9, 4).unexplained(vectors), vectors)
    zeros = PoolProducts(np.zeros((50, 32), np.float32), centred=False)
    vectors = torch.randn(3, 32).double()
    torch.testing.assert_close(zeros.unexplained(vectors), vectors)
