"""`trainer.precision=auto` depends on the instructions that PyTorch and oneDNN use."""

import os
import subprocess
import sys

import pytest
import torch

_ASKS = (
    "import torch; from ivqa.device import fastest_dtype, uses_avx512; "
    "from ivqa.runs.precision import set_precision; from omegaconf import OmegaConf; "
    "trainer = OmegaConf.create({'accelerator': 'cpu', 'precision': 'auto'}); "
    "set_precision(trainer); "
    "print(fastest_dtype() is torch.bfloat16, uses_avx512(), trainer.precision)"
)


def _found(**environment: str) -> tuple[str, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", _ASKS],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    fast, wide, precision = done.stdout.split()
    return fast, wide, precision


@pytest.mark.parametrize(("aten", "onednn"), [("default", "SSE41"), ("avx2", "AVX2")])
def test_an_emulated_processor_without_avx512_computes_in_float32(aten: str, onednn: str) -> None:
    found = _found(ATEN_CPU_CAPABILITY=aten, ONEDNN_MAX_CPU_ISA=onednn)
    assert found == ("False", "False", "32-true")


@pytest.mark.skipif(
    not torch.backends.cpu.get_cpu_capability().startswith("AVX512"),
    reason="the processor has no AVX-512",
)
def test_avx512_without_bfloat16_computes_in_float32() -> None:
    found = _found(ONEDNN_MAX_CPU_ISA="AVX512_CORE")
    assert found == ("False", "True", "32-true")
