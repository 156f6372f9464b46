"""Frozen weights: not stored in checkpoints; a checksum verifies them at loading."""

import zlib
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import nn


def checksum(model: nn.Module) -> int:
    """Computes a checksum of all weights of a model on the CPU.

    Its 32 bits depend on values, types and order of the weights.
    """
    total = 0
    for value in model.parameters():
        data = value.detach().contiguous().flatten().view(torch.uint8)
        total = zlib.crc32(data.numpy().tobytes(), total)
    return total


def leave_out_frozen(network: nn.Module, base: str) -> None:
    """Makes `state_dict` leave out what is frozen now, and `load_state_dict` keep it as it is.

    `base` names a buffer with the `checksum` of the frozen weights. It is stored, and a state with
    another checksum is refused.
    """
    state = network.state_dict(keep_vars=True)
    names = [name for name, value in state.items() if name != base and not value.requires_grad]
    network.register_state_dict_post_hook(partial(_remove, names))
    network.register_load_state_dict_pre_hook(partial(_add, names, base))


def _remove(
    names: Sequence[str],
    network: nn.Module,
    state: dict[str, Any],
    prefix: str,
    metadata: dict[str, Any],
) -> None:
    for name in names:
        state.pop(f"{prefix}{name}", None)


def _add(
    names: Sequence[str],
    base: str,
    network: nn.Module,
    state: dict[str, Any],
    prefix: str,
    metadata: dict[str, Any],
    strict: bool,
    missing: list[str],
    unexpected: list[str],
    errors: list[str],
) -> None:
    """Adds the network's own weights to a state to be loaded; the caller's dict is a copy."""
    stored = state.get(f"{prefix}{base}")
    if stored is not None and int(stored) != int(network.get_buffer(base)):
        errors.append("its adapters were trained with other weights than those of model.path")
    for name in names:
        state.setdefault(f"{prefix}{name}", attrgetter(name)(network))
