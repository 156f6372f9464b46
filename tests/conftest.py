"""Fixtures of the whole suite."""

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data, where it is at hand: IVQA_SHARED_DATA or ../shared/data beside the checkout."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("IVQA_SHARED_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"real data is not at hand: set IVQA_SHARED_DATA ({folder} does not exist)")
    return folder


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
