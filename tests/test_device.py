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


def test_the_fast_tanh_is_tanh() -> None:
    exact = torch.linspace(-20, 20, 100_001, dtype=torch.float64)
    found = device.fast_tanh(exact.float())
    torch.testing.assert_close(found.double(), exact.float().double().tanh(), atol=2e-7, rtol=0)
    half = exact.bfloat16()
    assert torch.equal(device.fast_tanh(half), half.tanh())
    some = exact[::1000].float().requires_grad_()
    (slope,) = torch.autograd.grad(device.fast_tanh(some).sum(), some)
    torch.testing.assert_close(slope, 1 - some.detach().tanh() ** 2, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_states_of_an_lstm_and_their_slopes_are_pytorchs(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    cell = torch.nn.LSTMCell(3, 5, dtype=dtype)
    words, hidden = torch.randn(4, 3, dtype=dtype), torch.randn(4, 5, dtype=dtype)
    before = torch.randn(4, 5, dtype=dtype, requires_grad=True)
    expected = cell(words, (hidden, before))
    of_state = torch.nn.functional.linear(hidden, cell.weight_hh, cell.bias_hh)
    gates = torch.nn.functional.linear(words, cell.weight_ih, cell.bias_ih) + of_state
    found = device.lstm_states(gates, before)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    inputs = (before, cell.weight_hh)
    slopes = torch.autograd.grad(sum(part.sum() for part in found), inputs)
    expected_slopes = torch.autograd.grad(sum(part.sum() for part in expected), inputs)
    torch.testing.assert_close(slopes, expected_slopes, atol=1e-5, rtol=0)


def test_only_a_cpu_shares_work_and_only_in_float32_without_gradients() -> None:
    cpu = torch.device("cpu")
    assert not device.infers_on_cpu(cpu)
    with torch.no_grad():
        assert device.infers_on_cpu(cpu)
        assert not device.infers_on_cpu(torch.device("cuda"))
        with torch.autocast("cpu", torch.bfloat16):
            assert not device.infers_on_cpu(cpu)
