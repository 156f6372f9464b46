"""Comparison of two evaluated models, question by question: evaluate.py compare=[RUN_A,RUN_B]."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from ivqa.errors import UserError
from ivqa.files import read_yaml, write_json, write_text
from ivqa.metrics import RScore
from ivqa.report import markdown_table, print_table, write_noise_curve
from ivqa.robustness import NoiseRecords, paired_differences
from ivqa.runs.loggers import log_results


def compare(cfg: DictConfig) -> float:
    """Compares the two runs of cfg.compare at every level of noise (task=compare).

    Writes metrics.json (first/..., second/..., and compare/..., which is second - first), table.md
    and both curves in robustness.png.

    Args:
        cfg: The configuration of evaluate.py.

    Returns:
        The difference of the R_scores; of the accuracies if no noise was measured.

    Raises:
        UserError: There are not two runs, they have no question in common, or one of them has no
            robustness.parquet.
    """
    runs = [Path(run) for run in cfg.compare]
    if len(runs) != 2:
        raise UserError(f"compare= takes two run directories, not {len(runs)}")
    first, second = (NoiseRecords.read(run) for run in runs)
    names = names_of_runs(runs)
    r_score: RScore = instantiate(cfg.r_score)
    differences = paired_differences(first, second, r_score=r_score)
    metrics = {f"compare/{name}": value for name, value in differences.items()}
    curves: dict[str, dict[str, float]] = {}
    for place, name, records in zip(("first", "second"), names, (first, second), strict=True):
        figures = records.curve(r_score).metrics()
        curves[name] = {f"robustness/{key}": value for key, value in figures.items()}
        metrics |= {f"{place}/{key}": value for key, value in figures.items()}

    rows = _rows(metrics, names, len(first.accuracies))
    run_dir = Path(cfg.output_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    write_json(run_dir / "metrics.json", metrics)
    write_text(run_dir / "table.md", markdown_table(rows))
    write_noise_curve(run_dir / "robustness.png", curves)
    media = {"noise_curves": run_dir / "robustness.png", "comparison": pd.DataFrame(rows)}
    log_results(cfg, metrics, media)
    console = Console()
    title = f"{names[1]} against {names[0]}, {len(first)} questions, 95 percent intervals"
    print_table(rows, title=title, console=console)
    console.print(f"picture: {run_dir / 'robustness.png'}\nrun: {run_dir}", soft_wrap=True)
    # Runs without noise have no R_score; level 0 is clean.
    noisy = "compare/r_score_difference_1"
    return metrics.get(noisy, metrics["compare/partition_0/accuracy_difference"])


def names_of_runs(runs: Sequence[Path]) -> list[str]:
    """Distinct names of runs.

    Args:
        runs: Different run directories.

    Returns:
        The names in their configurations; if these are equal, with the seeds; then the names of the
        folders; then their paths.
    """
    names, seeds = [], []
    for run in runs:
        file = run / "config.yaml"
        stored = read_yaml(file, dict) if file.is_file() else {}
        name = str(stored.get("name") or run.name)
        names.append(name)
        seeds.append(f"{name}, seed {stored['seed']}" if "seed" in stored else name)
    for found in (names, seeds, [run.name for run in runs]):
        if len(set(found)) == len(found):
            return found
    return [str(run) for run in runs]


def _rows(metrics: dict[str, float], names: list[str], levels: int) -> list[dict[str, Any]]:
    """Rows of the table, one for each level of noise."""
    rows = []
    for level in range(levels):
        at = f"partition_{level}"
        row: dict[str, Any] = {"level": str(level) if level else "0, clean"}
        row |= {
            name: metrics[f"{place}/{at}/accuracy"]
            for place, name in zip(("first", "second"), names, strict=True)
        }
        row["difference"] = _with_interval(metrics, f"compare/{at}/accuracy_difference")
        row[f"only {names[0]}"] = int(metrics[f"compare/{at}/only_first"])
        row[f"only {names[1]}"] = int(metrics[f"compare/{at}/only_second"])
        row["McNemar's p"] = f"{metrics[f'compare/{at}/p_value']:.2g}"
        if level:
            row["R_score difference"] = _with_interval(
                metrics, f"compare/r_score_difference_{level}"
            )
        rows.append(row)
    return rows


def _with_interval(metrics: dict[str, float], name: str) -> str:
    """A difference with its confidence interval: "+0.012 [-0.003, +0.027]"."""
    low, high = metrics[f"{name}_low"], metrics[f"{name}_high"]
    return f"{metrics[name]:+.3f} [{low:+.3f}, {high:+.3f}]"
