"""Accuracy under noise as tasks show it: a table in the terminal and a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from ivqa.report import noise_rows, print_noise_curve, write_noise_curve


def show_noise_curve(
    metrics: Mapping[str, float], name: str, run_dir: Path, console: Console
) -> dict[str, Any]:
    """Prints accuracy under noise, where it was measured, and draws robustness.png.

    Returns both as media for `log_results`.
    """
    if "robustness/partition_1/accuracy" not in metrics:
        return {}
    picture = run_dir / "robustness.png"
    print_noise_curve(metrics, console=console)
    write_noise_curve(picture, {name: metrics})
    console.print(f"look at {picture}", soft_wrap=True)
    return {"noise_curve": picture, "noise_table": pd.DataFrame(noise_rows(metrics))}
