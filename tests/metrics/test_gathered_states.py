"""States of metrics that two processes gather, tested with the hook of torchmetrics."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import Metric

from ivqa.metrics import VQAAccuracy

ACCURACIES = torch.tensor([1.0, 0.5, 0.0, 0.25]), torch.tensor([0, 2, 0, -1])


def computed_with(first: Metric, second: Metric) -> dict[str, Any]:
    """The value of `first` if the process of `second` is the only other one."""
    others = iter(list(second.metric_state.values()))

    def all_gather(mine: Tensor, group: Any) -> list[Tensor]:
        return [mine, next(others)]

    first.dist_sync_fn, first.distributed_available_fn = all_gather, lambda: True
    return first.compute()


def update(metric: VQAAccuracy, part: slice) -> None:
    metric.update(ACCURACIES[0][part], ACCURACIES[1][part])


def test_two_gathered_states_equal_the_state_of_all_batches() -> None:
    whole, first, second = VQAAccuracy(), VQAAccuracy(), VQAAccuracy()
    update(whole, slice(None))
    update(first, slice(0, 1))
    update(second, slice(1, None))
    expected = {name: float(value) for name, value in whole.compute().items()}
    found = {name: float(value) for name, value in computed_with(first, second).items()}
    assert found == pytest.approx(expected, nan_ok=True)
