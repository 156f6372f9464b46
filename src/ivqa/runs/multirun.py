"""One table at the end of a Hydra multirun, averaged over seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.experimental.callback import Callback
from omegaconf import DictConfig
from rich.console import Console

from ivqa.files import read_yaml, write_json, write_text
from ivqa.report.noise_curve import write_noise_curve
from ivqa.report.tables import markdown_table, print_table
from ivqa.runs.artifact_store import read_metrics
from ivqa.runs.short_forms import shortened


class MultirunTable(Callback):
    """Gathers metrics.json of every job into table.md and results.json of the sweep's directory.

    columns: the metrics to show and their order, by heading, as the table of a paper has them;
    None shows all but what breaks another down (vqa/kind/count); results.json has everything.
    shared_rows: {name: {prefix: other prefix}}, a row each of what all jobs of a seed measured
    alike: the first job's columns, with the metrics of the other prefix.
    """

    def __init__(
        self,
        columns: Mapping[str, str] | None = None,
        shared_rows: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.columns = dict(columns or {})
        self.shared_rows = {name: dict(row) for name, row in (shared_rows or {}).items()}

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Prints the table; jobs that wrote no metrics are named below it."""
        sweep_dir = Path(str(config.hydra.sweep.dir))
        jobs = _jobs(sweep_dir)
        finished = [job for job in jobs if job["metrics"]]
        if not finished:
            return
        averages = average_over_seeds(finished)
        rows = [
            {**arranged(averages[0], replaced(self.columns, prefixes)), "setting": name}
            for name, prefixes in self.shared_rows.items()
        ]
        rows += [arranged(row, self.columns) for row in averages]
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


class MultirunCurves(Callback):
    """Draws accuracy under noise of all jobs that measured it into one picture, curves.png."""

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """One curve a job, named by what tells it from the others."""
        sweep_dir = Path(str(config.hydra.sweep.dir))
        jobs = [
            job for job in _jobs(sweep_dir) if "robustness/partition_0/accuracy" in job["metrics"]
        ]
        if jobs:
            names = distinguishing([job["overrides"] for job in jobs])
            curves = {name: job["metrics"] for name, job in zip(names, jobs, strict=True)}
            write_noise_curve(sweep_dir / "curves.png", curves)
            Console().print(f"curves: {sweep_dir / 'curves.png'}", soft_wrap=True)


def distinguishing(overrides: Sequence[Sequence[str]]) -> list[str]:
    """The overrides of each job that not all jobs have, as one text each.

    >>> distinguishing([["model=mlb", "ranker=lasso"], ["model=mlb", "ranker=cider"]])
    ['ranker=lasso', 'ranker=cider']
    """
    common = set.intersection(*(set(items) for items in overrides)) if len(overrides) > 1 else set()
    return [" ".join(item for item in items if item not in common) for items in overrides]


def arranged(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """The row with the metrics that `columns` names, under its headings.

    Without any: those whose names have no third part, which is one of many of a kind.

    >>> arranged({"setting": "model=mlb", "robustness/r_score": 0.4}, {"R": "robustness/r_score"})
    {'setting': 'model=mlb', 'R': 0.4}
    >>> arranged({"setting": "model=mlb", "vqa/accuracy": 0.8, "vqa/kind/count": 0.5}, {})
    {'setting': 'model=mlb', 'vqa/accuracy': 0.8}
    """
    if not columns:
        return {key: value for key, value in row.items() if key.count("/") < 2}
    shown = {heading: row.get(metric, "") for heading, metric in columns.items()}
    return {key: row[key] for key in ("setting", "seeds") if key in row} | shown


def replaced(columns: Mapping[str, str], prefixes: Mapping[str, str]) -> dict[str, str]:
    """The columns, with metrics of other prefixes.

    >>> replaced({"U#": "rl/unique"}, {"rl/": "supervised/"})
    {'U#': 'supervised/unique'}
    """
    shown = dict(columns)
    for old, new in prefixes.items():
        for heading, metric in shown.items():
            if metric.startswith(old):
                shown[heading] = new + metric.removeprefix(old)
    return shown


def average_over_seeds(jobs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a table, one a setting: the mean of each metric over the setting's seeds.

    jobs: {"overrides": ["model=x", "seed=1"], "metrics": {name: float}}. A setting is called by
    what not all of them have. Where it was run with several seeds, every metric is a text
    "mean ± standard deviation" (with n - 1).
    """
    frame = pd.DataFrame([job["metrics"] for job in jobs])
    settings = distinguishing(
        [[item for item in job["overrides"] if item[:5] != "seed="] for job in jobs]
    )
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
        overrides = read_yaml(folder / ".hydra" / "overrides.yaml", list)
        jobs.append(
            {
                "directory": str(folder),
                "overrides": [shortened(str(item)) for item in overrides],
                "metrics": read_metrics(file) if file.is_file() else {},
            }
        )
    return jobs
