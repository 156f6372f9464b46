"""What the processor of this machine supports."""

import os
from collections.abc import Mapping
from typing import Any

import torch

# Values of the environment variable ONEDNN_MAX_CPU_ISA, which limits oneDNN's instruction sets.
_BELOW_AVX512 = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"}
_BELOW_BFLOAT16 = {"AVX512_CORE", "AVX512_CORE_VNNI"}


def uses_avx512() -> bool:
    """Whether PyTorch and oneDNN both use AVX-512.

    The processor must support it, and the environment variables ATEN_CPU_CAPABILITY and
    ONEDNN_MAX_CPU_ISA must not disable it (tests set them to emulate other processors).
    """
    capability = torch.backends.cpu.get_cpu_capability()
    return capability.startswith("AVX512") and _onednn_limit() not in _BELOW_AVX512


def _onednn_limit() -> str:
    return os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()


def fastest_dtype(device: str = "cpu") -> torch.dtype:
    """The data type in which the device multiplies matrices fastest.

    Args:
        device: "cpu", or the type of an accelerator such as "cuda".

    Returns:
        bfloat16 where the device has instructions for it, else float32. On a CPU whose instruction
        sets are limited (see `uses_avx512`), the limit counts, not the processor.
    """
    if device != "cpu":
        return torch.bfloat16
    if not uses_avx512() or _onednn_limit() in _BELOW_BFLOAT16:
        return torch.float32
    # Missing in torch 2.11: then the answer is float32.
    able: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return torch.bfloat16 if able.get("amx_bf16") or able.get("avx512_bf16") else torch.float32


def infers_on_cpu(device: torch.device) -> bool:
    """Whether a module on this device computes on a CPU, without gradients and in float32.

    It may then share work between questions, which costs a GPU more than it saves.
    """
    plain = not torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    return plain and device.type == "cpu"


def fast_tanh(values: torch.Tensor) -> torch.Tensor:
    """tanh(x) = 2 sigmoid(2 x) - 1, which takes a CPU a third of the time of PyTorch's tanh.

    The error is 1e-7, absolute; where it would be larger or no gain, it is PyTorch's.
    """
    if not _tanh_by_sigmoid(values):
        return values.tanh()
    return torch.rsub((2 * values).sigmoid_(), -1, alpha=-2)  # one pass for 2 s - 1


def _tanh_by_sigmoid(values: torch.Tensor) -> bool:
    return values.device.type == "cpu" and values.dtype == torch.float32


def lstm_states(gates: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Computes h_t and c_t of an LSTM, (N, d) each; the gates are overwritten.

    Args:
        gates: i, f, g and o before their sigmoid and tanh, (N, 4 d), in PyTorch's order.
        cell: c_(t-1), (N, d).
    """
    size = cell.shape[1]
    if _tanh_by_sigmoid(gates):
        # As in `fast_tanh`, so that one pass takes all four.
        gates[:, 2 * size : 3 * size] *= 2
        enter, keep, new, leave = gates.sigmoid_().chunk(4, dim=1)
        new = torch.rsub(new, -1, alpha=-2)
    else:
        enter, keep, new, leave = gates.chunk(4, dim=1)
        enter, keep, new, leave = enter.sigmoid(), keep.sigmoid(), new.tanh(), leave.sigmoid()
    cell = keep * cell + enter * new
    return leave * fast_tanh(cell), cell


def on_cpu(accelerator: str) -> bool:
    """Whether a Lightning trainer with this argument ("cpu", "gpu", "auto") computes on the CPU."""
    return accelerator == "cpu" or (accelerator == "auto" and not torch.accelerator.is_available())


def asking_device(accelerator: str) -> torch.device:
    """Where a trained model asks or answers outside of a Lightning trainer with this argument.

    It is the GPU of this process, where the trainer would take one. Apple's has no float64.
    """
    found = None if on_cpu(accelerator) else torch.accelerator.current_accelerator()
    if found is None or found.type == "mps":
        return torch.device("cpu")
    rank = int(os.environ.get("LOCAL_RANK", "0"))  # of torchrun: a GPU for each process
    return torch.device(found.type, rank % torch.accelerator.device_count())


# Rows that a device needs to be busy, as a multiple of those of a CPU, whose cache they stay in.
_ROWS = {"cpu": 1}
_OF_A_GPU = 8


def rows_of_pass(on_cpu: int, device: torch.device) -> int:
    """The rows of one pass through a network that takes `on_cpu` rows at once on a CPU."""
    return on_cpu * _ROWS.get(device.type, _OF_A_GPU)
