"""One table at the end of a Hydra multirun, averaged over seeds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from ivqa.experiment.artifacts import write_json, write_text
from ivqa.report.tables import markdown_table, print_table


class MultirunTable(Callback):
    """Gathers metrics.json of every job into table.md and results.json of the sweep's directory."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Prints the table; jobs that wrote no metrics are named below it."""
        sweep_dir = Path(str(config.hydra.sweep.dir))
        jobs = _jobs(sweep_dir)
        finished = [job for job in jobs if job["metrics"]]
        if not finished:
            return
        rows = average_over_seeds(finished)
        write_json(sweep_dir / "results.json", jobs)
        write_text(sweep_dir / "table.md", markdown_table(rows))
        console = Console()
        print_table(rows, title=f"{len(finished)} of {len(jobs)} runs", console=console)
        for job in jobs:
            if not job["metrics"]:
                console.print(
                    f"no metrics: {job['directory']} ({', '.join(job['overrides'])})",
                    soft_wrap=True,
                )
        console.print(f"table: {sweep_dir / 'table.md'}", soft_wrap=True)


def average_over_seeds(jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a table, one a setting: the mean of each metric over the setting's seeds.

    jobs: {"overrides": ["model=x", "seed=1"], "metrics": {name: float}}. Where a setting was run
    with several seeds, every metric is a text "mean ± standard deviation" (with n - 1).
    """
    frame = pd.DataFrame([job["metrics"] for job in jobs])
    settings = [" ".join(item for item in job["overrides"] if item[:5] != "seed=") for job in jobs]
    rows = []
    for setting in dict.fromkeys(settings):
        chosen = frame[[name == setting for name in settings]].dropna(axis=1, how="all")
        row: dict[str, Any] = {"setting": setting or "default"}
        for metric in chosen.columns:
            mean, spread = chosen[metric].mean(), chosen[metric].std()
            row[str(metric)] = mean if len(chosen) == 1 else f"{mean:.3f} ± {spread:.3f}"
        rows.append({**row, "seeds": len(chosen)} if len(chosen) > 1 else row)
    return rows


def _jobs(sweep_dir: Path) -> list[dict[str, Any]]:
    folders = [folder for folder in sweep_dir.iterdir() if (folder / ".hydra").is_dir()]
    jobs = []
    for folder in sorted(
        folders, key=lambda folder: int(folder.name) if folder.name.isdigit() else 0
    ):
        file = folder / "metrics.json"
        overrides = OmegaConf.load(folder / ".hydra" / "overrides.yaml")
        jobs.append(
            {
                "directory": str(folder),
                "overrides": [str(item) for item in overrides],
                "metrics": json.loads(file.read_text()) if file.is_file() else {},
            }
        )
    return jobs
