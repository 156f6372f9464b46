"""What the machine at hand is fast at."""

import os
from collections.abc import Mapping
from typing import Any

import torch

# Values of ONEDNN_MAX_CPU_ISA, which makes oneDNN use less than the processor has.
_BELOW_AVX512 = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2"}
_BELOW_BFLOAT16 = _BELOW_AVX512 | {"AVX512_CORE", "AVX512_CORE_VNNI"}


def uses_avx512() -> bool:
    """Whether PyTorch and oneDNN use AVX-512: the processor has it, and nothing forbids it.

    ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA forbid it, to emulate another processor.
    """
    return _aten_uses_avx512() and _most_of_onednn() not in _BELOW_AVX512


def _aten_uses_avx512() -> bool:
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


def _most_of_onednn() -> str:
    return os.environ.get("ONEDNN_MAX_CPU_ISA", "DEFAULT").upper()


def fastest_dtype(device: str = "cpu") -> torch.dtype:
    """Bfloat16 where the device multiplies it, else float32.

    On a CPU that PyTorch or oneDNN use in part only (see `uses_avx512`), what that part has counts.
    """
    if device != "cpu":
        return torch.bfloat16
    if not _aten_uses_avx512() or _most_of_onednn() in _BELOW_BFLOAT16:
        return torch.float32
    # torch 2.11 does not tell yet
    able: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return torch.bfloat16 if able.get("amx_bf16") or able.get("avx512_bf16") else torch.float32


def on_cpu(accelerator: str) -> bool:
    """Whether a Lightning trainer with this `accelerator` computes on the CPU."""
    return accelerator == "cpu" or (accelerator == "auto" and not torch.accelerator.is_available())
