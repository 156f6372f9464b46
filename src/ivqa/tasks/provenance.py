"""What a page of figures says about their origin: commit, machine, versions and seeds."""

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ivqa.device import fastest_dtype


def commit_of(root: Path) -> str:
    """The short hash of HEAD, with "+" where tracked files differ; "unknown" without git."""
    command = ["git", "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+"]
    try:
        found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def this_machine() -> str:
    """Cores, the widest vectors, and whether models are trained in bfloat16."""
    able = torch.backends.cpu.get_cpu_capability()
    precision = "bfloat16" if fastest_dtype() is torch.bfloat16 else "float32"
    return f"{os.cpu_count()} cores with {able}, {precision}"


def versions() -> str:
    """Versions of Python and of the packages that compute the numbers."""
    names = ("pytorch-lightning", "transformers", "numpy", "scipy", "scikit-learn")
    first = f"Python {platform.python_version()}, torch {torch.__version__}"  # with its build
    return ", ".join([first, *(f"{name} {version(name)}" for name in names)])


def seeds_of(jobs: Sequence[Mapping[str, Any]]) -> list[int]:
    """The seeds of jobs, ascending; 1 is the default of conf/run.yaml.

    >>> seeds_of([{"overrides": ["model=mlb", "seed=3"]}, {"overrides": ["model=mlb"]}])
    [1, 3]
    """
    chosen = [
        [str(item).removeprefix("seed=") for item in job["overrides"] if str(item)[:5] == "seed="]
        for job in jobs
    ]
    return sorted({int(seeds[-1]) if seeds else 1 for seeds in chosen})
