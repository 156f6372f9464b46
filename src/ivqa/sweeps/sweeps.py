"""The sweep of a file, from the checks of all its values to its table and plot."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import optuna
from omegaconf import DictConfig, open_dict
from rich.console import Console

from ivqa.config.checks import check_config
from ivqa.config.short_forms import shortened
from ivqa.errors import UserError
from ivqa.report.sweep_plot import write_sweep_plot
from ivqa.report.table_files import write_table
from ivqa.report.tables import cell, print_table
from ivqa.store.locks import folder_lock
from ivqa.sweeps.optuna_sweep import (
    Launch,
    SweepJob,
    errors,
    failed_trials,
    finished_trials,
    run_sweep,
)
from ivqa.sweeps.sweep_files import Parameter

Compose = Callable[[Sequence[str]], DictConfig]


def sweep_in(
    folder: Path, job: SweepJob, compose: Compose, launch: Launch, console: Console
) -> None:
    """Runs a sweep in a folder, or what it lacks there; writes table.html (.md, .csv, .tex) and
    sweep.png.

    Args:
        folder: The folder.
        job: The sweep.
        compose: Composes the configuration of a point from its overrides.
        launch: Runs jobs, given the overrides of each and the number of the first.
        console: The terminal.

    Raises:
        UserError: A value of a parameter is invalid, or no point has a result.
    """
    for overrides in _each_value(job):
        cfg = compose(overrides)
        with open_dict(cfg):
            del cfg["hydra"]
        check_config(cfg)
    job.number_of_points()
    with folder_lock(folder):
        console.print(f"sweep: {folder} (the same command continues it)", soft_wrap=True)
        study = run_sweep(job, folder, launch, console)
        if not finished_trials(study):
            first = next(iter(errors(study).values()))
            raise UserError(f"no point of the sweep in {folder} has a result; the first: {first}")
        _show(study, job, folder, console)


def _each_value(job: SweepJob) -> Iterator[list[str]]:
    """The overrides of points that show each value once; of intervals, their bounds."""
    values = {key: _values(parameter) for key, parameter in job.sweep.parameters.items()}
    for number in range(max(map(len, values.values()))):
        yield job.overrides({key: own[number % len(own)] for key, own in values.items()})


def _values(parameter: Parameter) -> list[Any]:
    if parameter.values:
        return list(parameter.values)
    bounds = parameter.bounds()
    return list(map(int, bounds) if parameter.distribution == "int_uniform" else bounds)


def unique_ends(keys: Sequence[str]) -> dict[str, str]:
    """Gives each configuration key a heading: its shortest end that no other key has.

    Args:
        keys: Different keys, such as "model.module.optimizer.lr".

    Returns:
        The heading of each key, such as "lr".

    Example:
        >>> unique_ends(["model.epochs", "a.size", "b.size"])
        {'model.epochs': 'epochs', 'a.size': 'a.size', 'b.size': 'b.size'}
    """
    parts = {key: key.split(".") for key in keys}
    ends = {
        key: [".".join(own[at:]) for at in reversed(range(len(own)))] for key, own in parts.items()
    }
    seen = Counter(end for own in ends.values() for end in own)
    return {key: next((end for end in own if seen[end] == 1), key) for key, own in ends.items()}


def _show(study: optuna.Study, job: SweepJob, folder: Path, console: Console) -> None:
    """Writes and prints the table, best point first, and draws the plot."""
    metric, names = job.sweep.metric.name, unique_ends(list(job.sweep.parameters))
    finished = finished_trials(study)
    ranked = sorted(finished, key=lambda trial: trial.values[0], reverse=job.maximizes())
    rows: list[dict[str, Any]] = [
        {
            "point": str(trial.number),
            metric: trial.value,
            **{name: trial.params[key] for key, name in names.items()},
        }
        for trial in ranked
    ]
    failed = failed_trials(study)
    for trial in failed:
        params = {name: trial.params[key] for key, name in names.items()}
        rows.append({"point": str(trial.number), metric: "failed", **params})
    title = f"{len(finished)} of {len(finished) + len(failed)} points"
    write_table(folder, rows, title)
    print_table(rows, title=title, console=console)
    for trial in failed:
        reason = errors(study)[str(trial.number)]
        console.print(f"point {trial.number} failed: {reason}", soft_wrap=True)
    write_sweep_plot(
        folder / "sweep.png",
        [{name: trial.params[key] for key, name in names.items()} for trial in finished],
        [trial.values[0] for trial in finished],
        metric=metric,
        best=finished.index(ranked[0]),
    )
    command = " ".join(map(shortened, job.overrides(ranked[0].params)))
    console.print(
        f"best: point {ranked[0].number}, {metric} {cell(ranked[0].value)}\n"
        f"  python {job.sweep.program} {command}\n"
        f"table: {folder / 'table.html'} (and .md, .csv, .tex)\nplot: {folder / 'sweep.png'}",
        soft_wrap=True,
    )
