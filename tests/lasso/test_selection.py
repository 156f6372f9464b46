import pytest
import torch

from ivqa.lasso.selection import Largest


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shift", [-6.0, 0.0, 6.0])
def test_chunks_in_any_order_give_the_largest(dtype: torch.dtype, shift: float) -> None:
    # Few different numbers: many ties, of which the first rows count.
    products = (torch.randn(4, 5000, generator=torch.manual_seed(0)) + shift).to(dtype)
    products[:, 100:] = products[:, 100:].round()
    wanted = products.float().sort(dim=1, descending=True, stable=True)
    for order in (range(0, 5000, 700), range(4900, -1, -700)):
        parts = [Largest(torch.full((4,), -torch.inf, dtype=dtype), 60) for _ in range(2)]
        for number, start in enumerate(order):
            parts[number % 2].add(products[:, start : start + 700].contiguous(), start)
        values, rows = parts[0].sorted(parts[1])
        torch.testing.assert_close(values, wanted.values[:, :60])
        torch.testing.assert_close(rows, wanted.indices[:, :60])


def test_floors_and_masked_products() -> None:
    infinity = float("inf")
    largest = Largest(torch.tensor([-infinity, 0.0, -1.0]), 3)
    largest.add(torch.tensor([[-infinity, -2.0], [0.0, 1.0], [-1.0, -0.5]]), 10)
    values, rows = largest.sorted()
    wanted = [[-2.0, -infinity, -infinity], [1.0, -infinity, -infinity], [-0.5] + 2 * [-infinity]]
    assert values.tolist() == wanted
    assert rows[:, 0].tolist() == [11, 11, 11]
