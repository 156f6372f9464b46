"""What the machine at hand is fast at."""

from collections.abc import Mapping
from typing import Any

import torch


def fastest_dtype(device: str = "cpu") -> torch.dtype:
    """Bfloat16 where the device multiplies it, else float32."""
    if device != "cpu":
        return torch.bfloat16
    # torch 2.11 does not tell yet
    able: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return torch.bfloat16 if able.get("amx_bf16") or able.get("avx512_bf16") else torch.float32


def on_cpu(accelerator: str) -> bool:
    """Whether a Lightning trainer with this `accelerator` computes on the CPU."""
    return accelerator == "cpu" or (accelerator == "auto" and not torch.accelerator.is_available())
