"""Where trained models ask and answer."""

from types import SimpleNamespace

import pytest
import torch

from ivqa import device


@pytest.mark.parametrize(
    ("found", "accelerator", "rank", "expected"),
    [
        ("cuda", "auto", None, "cuda:0"),
        ("cuda", "gpu", "5", "cuda:1"),  # of four GPUs
        ("cuda", "cpu", None, "cpu"),
        ("mps", "auto", None, "cpu"),
        (None, "auto", None, "cpu"),
    ],
)
def test_a_model_asks_on_the_gpu_of_its_process(
    found: str | None,
    accelerator: str,
    rank: str | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    present = SimpleNamespace(
        is_available=lambda: found is not None,
        current_accelerator=lambda: None if found is None else torch.device(found),
        device_count=lambda: 4,
    )
    monkeypatch.setattr(torch, "accelerator", present)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    assert device.asking_device(accelerator) == torch.device(expected)
