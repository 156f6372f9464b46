"""Accuracy under noise in the results of tasks: a table in the terminal and a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from ivqa.data import VQASplit
from ivqa.metrics import PUBLISHED_R_SCORE, RScore
from ivqa.report.model_names import title_of
from ivqa.report.pages.noise_page import write_noise_page
from ivqa.report.plots import write_noise_curve
from ivqa.report.tables import noise_rows, print_noise_curve
from ivqa.robustness.records import NoiseRecords
from ivqa.runs.run_directory import read_config


def show_noise_curve(
    metrics: Mapping[str, float],
    name: str,
    run_dir: Path,
    split: VQASplit,
    r_score: RScore | None,
    console: Console,
) -> dict[str, Any]:
    """Shows the accuracy under noise, if `metrics` have it; `r_score` None is the published one.

    Prints it, draws it to robustness.png, and writes robustness.html with answers that change.

    Returns:
        Picture, page and table as media for `log_results`; empty without noise.
    """
    if "robustness/partition_1/accuracy" not in metrics:
        return {}
    picture, page = run_dir / "robustness.png", run_dir / "robustness.html"
    r_score = r_score or PUBLISHED_R_SCORE
    print_noise_curve(metrics, title_of(name), r_score, console=console)
    write_noise_curve(picture, {name: metrics})
    title = f"{title_of(name)} under noise"
    model = title_of(name), NoiseRecords.read(run_dir)
    write_noise_page(page, title, [model], split, r_score)
    console.print(f"picture: {picture}\nanswers that change: {page}", soft_wrap=True)
    table = pd.DataFrame(noise_rows(metrics))
    return {"noise_curve": picture, "noise": page, "noise_table": table}


def r_score_of(run_dir: Path) -> RScore:
    """R_score with the settings in the config.yaml of a finished run; else the published one."""
    known = read_config(run_dir).get("r_score") or {}
    return RScore(**{name: known[name] for name in vars(PUBLISHED_R_SCORE) if name in known})
