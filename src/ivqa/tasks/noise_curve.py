"""Accuracy under noise in the results of tasks: a table in the terminal and a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from ivqa.data import VQASplit
from ivqa.report import (
    NoisePageModel,
    noise_rows,
    print_noise_curve,
    title_of,
    write_noise_curve,
    write_noise_page,
)
from ivqa.robustness import NoiseRecords


def show_noise_curve(
    metrics: Mapping[str, float], name: str, run_dir: Path, split: VQASplit, console: Console
) -> dict[str, Any]:
    """Shows the accuracy under noise, if it was measured.

    Prints it, draws it to robustness.png, and writes robustness.html with answers that change.

    Args:
        metrics: Values by name, with robustness/partition_K/... if noise was measured.
        name: The legend of the curve.
        run_dir: The run directory, with robustness.parquet.
        split: The split of the questions.
        console: The terminal.

    Returns:
        Picture and table as media for `log_results`; empty without noise.
    """
    if "robustness/partition_1/accuracy" not in metrics:
        return {}
    picture = run_dir / "robustness.png"
    print_noise_curve(metrics, console=console)
    write_noise_curve(picture, {name: metrics})
    title = f"{title_of(name)} under noise"
    model = NoisePageModel(title_of(name), NoiseRecords.read(run_dir))
    write_noise_page(run_dir / "robustness.html", title, [model], split)
    console.print(
        f"picture: {picture}\nanswers that change: {run_dir / 'robustness.html'}", soft_wrap=True
    )
    return {"noise_curve": picture, "noise_table": pd.DataFrame(noise_rows(metrics))}
