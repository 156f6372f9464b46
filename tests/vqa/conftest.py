"""Fixtures of the zoo's tests."""

import pytest
import torch
from toy_zoo import ZOO

from ivqa.data.batches.batch import ImageBatch


@pytest.fixture(params=ZOO)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def images() -> ImageBatch:
    """Three images for five questions."""
    torch.manual_seed(3)
    return ImageBatch(
        ids=torch.tensor([7, 8, 9]),
        index=torch.tensor([0, 2, 1, 1, 0]),
        grid=torch.randn(3, 6, 5),
        pooled=torch.randn(3, 4),
    )
