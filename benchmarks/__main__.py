"""Runs every benchmark and writes RESULTS.md: python -m benchmarks [name ...]."""

import importlib
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch
from rich.console import Console

from ivqa.report.tables import markdown_table, print_table

NAMES = ("input_pipeline", "decoding", "belief_search", "caption_metrics", "text_metrics", "lasso")
LONG = ("lasso_large",)  # half an hour and 8 GB, when asked for
RESULTS = Path(__file__).with_name("RESULTS.md")


def main(names: list[str]) -> None:
    """Runs the named benchmarks, all by default; the others keep their section of RESULTS.md."""
    known = (*NAMES, *LONG)
    if unknown := set(names) - set(known):
        sys.exit(f"error: no benchmark '{min(unknown)}'; there are {', '.join(known)}")
    sections = _sections()
    for name in names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        rows = module.run()
        print_table(rows, title=name, console=Console())
        machine = f"{os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}"
        stamp = f"{datetime.now(UTC):%Y-%m-%d}, {machine}"
        text = (
            f"## {name}\n\n{module.__doc__.strip()}\n\n`python -m benchmarks {name}` on {stamp}\n\n"
        )
        sections[name] = text + markdown_table(rows)
    ordered = [sections[name] for name in known if name in sections]
    RESULTS.write_text("# Benchmarks\n\n" + "\n".join(ordered))


def _sections() -> dict[str, str]:
    if not RESULTS.is_file():
        return {}
    parts = RESULTS.read_text().split("\n## ")[1:]
    return {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in parts}


if __name__ == "__main__":
    main(sys.argv[1:])
