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
    if values.device.type != "cpu" or values.dtype != torch.float32:
        return values.tanh()
    return (2 * values).sigmoid_().mul(2).sub_(1)


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
