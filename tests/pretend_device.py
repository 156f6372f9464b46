"""A pretended device, for machines without a GPU.

The processor computes with its tensors. Its name is "pretend". A tensor on it cannot be combined
with one of the CPU, nor become a NumPy array, so that code that forgets to move a tensor fails as
it does on a GPU. It has no gradients. Registering it changes what a whole process takes for an
accelerator, so it is for processes of their own:

    python tests/pretend_device.py evaluate.py model=mlb   # a command whose models are there
    IVQA_TEST_DEVICE=pretend pytest -p pretend_device tests/diagnosis/test_search_devices.py
"""

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, library
from torch.utils._pytree import tree_leaves, tree_map_only

NAME = "pretend"
# Operations on a tensor of a GPU that take indices or lengths of the CPU there too.
_MIXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_pack_padded_sequence"}


class Held(Tensor):
    """A tensor on the pretended device; `raw` holds its numbers."""

    raw: Tensor

    @staticmethod
    def __new__(cls, raw: Tensor) -> Self:
        held = Tensor._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
        )
        held.raw = raw
        return held

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"Held({self.raw})"

    def tolist(self) -> Any:
        return self.raw.tolist()

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        name, kwargs = func.overloadpacket.__name__, dict(kwargs or {})
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        leaves = isinstance(wanted := kwargs.get("device"), torch.device) and wanted.type == "cpu"
        may_mix = name == "copy_" or (name in _MIXED and isinstance(args[0], cls))
        if not may_mix and any(one.dim() and not isinstance(one, cls) for one in tensors):
            raise RuntimeError(f"{func}: tensors of the CPU and of the device '{NAME}'")
        if wanted is not None:
            kwargs["device"] = "cpu"
        raw, options = tree_map_only(cls, lambda one: one.raw, (args, kwargs))
        found = _FUSED.get(name, func)(*raw, **options)
        if leaves:
            return found
        if name == "copy_":
            return args[0]
        if name == "_pack_padded_sequence":  # the sizes of the batches stay on the CPU
            return cls(found[0]), found[1]
        # What was changed in place is the given tensor.
        given = {id(one.raw): one for one in tensors if isinstance(one, cls)}

        def held(one: Tensor) -> Tensor:
            return given[id(one)] if id(one) in given else cls(one)

        return tree_map_only(Tensor, held, found)


def _gru(of_input: Tensor, of_state: Tensor, state: Tensor, *biases: Tensor) -> Any:
    one, other = (biases[0], biases[1]) if biases else (0, 0)
    reset, update, new = (of_input + one).chunk(3, 1)
    reset_state, update_state, new_state = (of_state + other).chunk(3, 1)
    new = (new + (reset + reset_state).sigmoid() * new_state).tanh()
    return new + (update + update_state).sigmoid() * (state - new), of_input.new_empty(0)


def _lstm(of_input: Tensor, of_state: Tensor, cell: Tensor, *biases: Tensor) -> Any:
    enter, keep, new, leave = (of_input + of_state + sum(biases)).chunk(4, 1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell, of_input.new_empty(0)


# A device that is not the CPU has cells in one kernel; the CPU has none.
_FUSED = {"_thnn_fused_gru_cell": _gru, "_thnn_fused_lstm_cell": _lstm}

_ATEN = library.Library("aten", "IMPL")


def register() -> None:
    """Makes the device known to PyTorch, for the rest of the process."""
    from torch.utils import backend_registration  # what is used of it is new

    backend_registration._setup_privateuseone_for_python_backend(NAME)
    _ATEN.impl(
        "empty.memory_format",
        lambda size, *, dtype=None, **_: Held(torch.empty(size, dtype=dtype)),
        "PrivateUse1",
    )
    _ATEN.impl(
        "empty_strided",
        lambda size, step, *, dtype=None, **_: Held(torch.empty_strided(size, step, dtype=dtype)),
        "PrivateUse1",
    )


if os.environ.get("IVQA_TEST_DEVICE") == NAME:  # other tests import this file for its doctests
    register()

if __name__ == "__main__":
    from ivqa.runs import trained_models

    register()
    trained_models.asking_device = lambda _: torch.device(NAME, 0)  # type: ignore[assignment]
    sys.argv = sys.argv[1:]
    runpy.run_path(str(Path(sys.argv[0]).absolute()), run_name="__main__")
