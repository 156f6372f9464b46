"""Accuracy under noise in the results of tasks: a table in the terminal and a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from ivqa.report import noise_rows, print_noise_curve, write_noise_curve


def show_noise_curve(
    metrics: Mapping[str, float], name: str, run_dir: Path, console: Console
) -> dict[str, Any]:
    """Prints the accuracy under noise and draws it to robustness.png, if it was measured.

    Args:
        metrics: Values by name, with robustness/partition_K/... if noise was measured.
        name: The legend of the curve.
        run_dir: The run directory.
        console: The terminal.

    Returns:
        Picture and table as media for `log_results`; empty without noise.
    """
    if "robustness/partition_1/accuracy" not in metrics:
        return {}
    picture = run_dir / "robustness.png"
    print_noise_curve(metrics, console=console)
    write_noise_curve(picture, {name: metrics})
    console.print(f"picture: {picture}", soft_wrap=True)
    return {"noise_curve": picture, "noise_table": pd.DataFrame(noise_rows(metrics))}
