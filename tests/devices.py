"""The devices of a test: the CPU, and a CUDA device where there is one.

A test computes its expected values on the CPU and what it tests on the device, so that a machine
without a GPU runs the same lines.
"""

import pytest
import torch

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    ),
]
on_devices = pytest.mark.parametrize("device", DEVICES)
