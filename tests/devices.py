"""The devices of a test: the CPU, and a CUDA device where there is one.

A test computes its expected values on the CPU and what it tests on the device, so that a machine
without a GPU runs the same lines. IVQA_TEST_DEVICE=pretend replaces CUDA, see `pretend_device`.
"""

import os
from typing import TypeVar

import pytest
import torch

Module = TypeVar("Module", bound=torch.nn.Module)

_OTHER = os.environ.get("IVQA_TEST_DEVICE", "cuda")
_ABSENT = _OTHER == "cuda" and not torch.cuda.is_available()
DEVICES = [
    "cpu",
    pytest.param(_OTHER, marks=pytest.mark.skipif(_ABSENT, reason="no CUDA device")),
]
on_devices = pytest.mark.parametrize("device", DEVICES)


def with_gradients(module: Module) -> Module:
    """Disables dropout; recurrent layers stay in training mode, where cuDNN has gradients."""
    module.eval()
    for part in module.modules():
        if isinstance(part, torch.nn.RNNBase):
            part.dropout = 0.0
            part.train()
    return module
