"""Runs every benchmark and writes RESULTS.md: `make benchmarks`, python -m benchmarks [name ...].

A section names the machine, the versions, the seed and the commit that it measured. Ratios depend
on what a processor is fast at, so each kind of processor has sections of its own.
"""

import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch
from pytorch_lightning import seed_everything
from rich.console import Console

from ivqa.device import fastest_dtype
from ivqa.provenance import commit_of, versions
from ivqa.report.tables import markdown_table, print_table
from ivqa.store.files import write_text

NAMES = (
    "input_pipeline",
    "extraction",
    "decoding",
    "belief_search",
    "diagnosis",
    "kernels",
    "device_work",
    "caption_metrics",
    "text_metrics",
    "lasso",
    "served_model",
    "scale",
    "large_diagnosis",
)
# When asked for: half an hour and 8 GB, and a benchmark that needs a CUDA device.
LONG = ("lasso_large", "cuda")
SEED = 0  # of Python, NumPy and PyTorch, set before each benchmark
RESULTS = Path(__file__).with_name("RESULTS.md")


def main(names: list[str]) -> None:
    """Runs the named benchmarks, all by default; other results in RESULTS.md stay as they are."""
    known = (*NAMES, *LONG)
    if unknown := set(names) - set(known):
        sys.exit(f"error: no benchmark '{min(unknown)}'; there are {', '.join(known)}")
    sections, processor = _sections(), _processor()
    for name in names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        seed_everything(SEED, verbose=False)
        rows = module.run()
        print_table(rows, title=name, console=Console())
        machine = f"{os.cpu_count()} cores ({platform.machine()})"
        if torch.cuda.is_available():
            machine += f", {torch.cuda.get_device_name()}"
        stamp = f"{datetime.now(UTC):%Y-%m-%d}, {machine}, seed {SEED}, {versions()}"
        stamp += f", commit {commit_of(Path(__file__).parent)}"
        title, claim = f"{name} on {processor}", module.__doc__.strip()
        text = f"## {title}\n\n{claim}\n\n`python -m benchmarks {name}` on {stamp}\n\n"
        sections[title] = text + markdown_table(rows)
        _write(sections)  # a later failure loses nothing


def _write(sections: dict[str, str]) -> None:
    """Writes RESULTS.md, its sections in the order of the benchmarks."""
    ordered = [
        sections[title]
        for name in (*NAMES, *LONG)
        for title in sorted(sections)
        if title.split()[0] == name
    ]
    write_text(RESULTS, "# Benchmarks\n\n" + "\n".join(ordered))


def _processor() -> str:
    """Its widest vectors, and whether it multiplies bfloat16."""
    able = torch.backends.cpu.get_cpu_capability()
    return f"{able} with bfloat16" if fastest_dtype() is torch.bfloat16 else able


def _sections() -> dict[str, str]:
    if not RESULTS.is_file():
        return {}
    parts = RESULTS.read_text().split("\n## ")[1:]
    return {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in parts}


if __name__ == "__main__":
    main(sys.argv[1:])
