"""Runs the tests marked `processor` under every instruction set that this machine can run.

Rounding differs between processors, and with it the trained weights. PyTorch and oneDNN can be
limited to older instruction sets, which emulates older processors.

    python tests/processors.py                      every instruction set
    python tests/processors.py --only avx2 -- -x    one of them; arguments after `--` go to pytest
    python tests/processors.py --only other         the widest set that is not the machine's own
"""

import argparse
import os
import subprocess
import sys

import torch

# Values of ATEN_CPU_CAPABILITY and ONEDNN_MAX_CPU_ISA, from the oldest instruction set on.
INSTRUCTION_SETS = {
    "default": ("default", "SSE41"),
    "avx2": ("avx2", "AVX2"),
    "avx512": ("avx512", "AVX512_CORE"),
}

IN_PARALLEL = ("-n", "logical", "--maxprocesses", "4", "--dist", "worksteal")


def available() -> list[str]:
    """The instruction sets of this machine; the last, "native", has no limit."""
    names = list(INSTRUCTION_SETS)
    most = torch.backends.cpu.get_cpu_capability().lower()
    return [*(names[: names.index(most) + 1] if most in names else names[:1]), "native"]


def other() -> str:
    """The widest instruction set below that of the machine.

    This is AVX2 on a machine with AVX-512, and the default set on a machine with AVX2 alone.
    """
    narrower = available()[:-2]  # without the machine's own set and without "native"
    return narrower[-1] if narrower else "default"


def main() -> int:
    """Returns the number of instruction sets under which a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[*available(), "other"], help="one instruction set")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    arguments = parser.parse_args()
    failed = []
    chosen = other() if arguments.only == "other" else arguments.only
    for name in [chosen] if chosen else available():
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if name in INSTRUCTION_SETS:
            aten, onednn = INSTRUCTION_SETS[name]
            environment |= {"ATEN_CPU_CAPABILITY": aten, "ONEDNN_MAX_CPU_ISA": onednn}
        print(f"== instruction set: {name}", flush=True)
        command = [sys.executable, "-m", "pytest", "-m", "processor", *IN_PARALLEL]
        if subprocess.run([*command, *arguments.pytest], env=environment).returncode:
            failed.append(name)
    if failed:
        print(f"failed under: {', '.join(failed)}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
