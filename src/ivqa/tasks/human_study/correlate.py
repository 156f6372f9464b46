"""Correlation of automatic metrics with oracle consistency over runs [iVQA 4]."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.errors import UserError
from ivqa.metrics import COEFFICIENTS, correlation, correlation_interval, with_ends
from ivqa.ranges import AtLeastOne, ExistingFolder, NonEmptyText, Resamples
from ivqa.report.tables import print_table, with_interval, write_table
from ivqa.runs.loggers import log_results
from ivqa.runs.run_directory import read_config, read_metrics, run_directories, write_config
from ivqa.store.files import write_json
from ivqa.terminal import terminal

_FEWEST_RUNS = 3  # a line through two points fits always


class Keys(CommandKeys, total=False):
    """Keys of task=correlate."""

    runs: Annotated[Sequence[ExistingFolder], AtLeastOne]
    targets: Annotated[Sequence[NonEmptyText], AtLeastOne]
    resamples: Resamples
    metrics: Mapping[str, NonEmptyText]


def correlate(cfg: Annotated[DictConfig, Keys]) -> float:
    """Correlates metrics with the targets, such as best/consistent, over runs (task=correlate).

    Reads the metrics.json of each run: of several models, seeds or temperatures. The bootstrap
    draws the runs of one model and seed together. Writes metrics.json and table.* in four formats.

    Returns:
        The highest Pearson correlation with the first target.

    Raises:
        UserError: There are fewer than three runs, or two are the same, or a run lacks a target.
        FileError: A metrics.json is damaged.
    """
    runs = run_directories([Path(run) for run in cfg.runs])
    if len(runs) < _FEWEST_RUNS:
        raise UserError(
            f"runs= names {len(runs)} finished runs; a correlation needs at least {_FEWEST_RUNS}"
        )
    columns = [read_metrics(run / "metrics.json") for run in runs]
    for run, column in zip(runs, columns, strict=True):
        for target in cfg.targets:
            if target not in column:
                raise UserError(
                    f"{run / 'metrics.json'} has no {target}, which only data with an oracle give; "
                    "leave the run out, or choose other targets="
                )
    frame = pd.DataFrame(columns)
    clusters = _clusters(runs)
    counted = f"{len(runs)} runs of {len(set(clusters))} models and seeds, 95 percent intervals"
    console, run_dir = terminal(), Path(cfg.output_dir)
    metrics: dict[str, float] = {}
    table = []
    for target in cfg.targets:
        others = {str(name): frame[name].tolist() for name in frame if name != target}
        found, rows = correlations(
            target, others, frame[target].tolist(), cfg.metrics, clusters, cfg.resamples
        )
        metrics |= found
        names = {heading: f"{target}/pearson/{metric}" for heading, metric in cfg.metrics.items()}
        rows.sort(key=lambda row: -found[names[row["metric"]]])
        title = f"correlation with {target}, {counted}"
        if rows:
            print_table(rows, title=title, console=console)
        else:
            console.print(f"{target}: no metric that all runs have differs among them")
        # In the files the target comes second: the first column names the row.
        table += [{"metric": row["metric"], "with": target, **row} for row in rows]
    lacking = [metric for metric in cfg.metrics.values() if metric not in frame.dropna(axis=1)]
    if lacking:
        console.print(f"not in all runs: {', '.join(lacking)}", soft_wrap=True)
    write_config(cfg, run_dir)
    write_json(run_dir / "metrics.json", metrics)
    if table:
        title = f"correlation of metrics, {counted}"
        write_table(run_dir, table, title)
    log_results(cfg, metrics, {"correlations": pd.DataFrame(table)})
    console.print(f"run: {run_dir}", soft_wrap=True)
    firsts = [f"{cfg.targets[0]}/pearson/{metric}" for metric in cfg.metrics.values()]
    return max((metrics[name] for name in firsts if name in metrics), default=float("nan"))


def _clusters(runs: Sequence[Path]) -> list[int]:
    """The number of the model of each run; runs without a configuration are alone.

    Runs of one model and seed that differ in the temperature ask the same best questions. Counted
    as independent, they would narrow the intervals.
    """
    models = []
    for number, run in enumerate(runs):
        stored = read_config(run)
        known = {"name", "seed"} <= stored.keys()
        models.append(f"{stored['name']}, seed {stored['seed']}" if known else str(number))
    places = {model: place for place, model in enumerate(dict.fromkeys(models))}
    return [places[model] for model in models]


def correlations(
    prefix: str,
    columns: Mapping[str, Sequence[float]],
    target: Sequence[float],
    headings: Mapping[str, str],
    clusters: Sequence[int] | None = None,
    resamples: int = 1000,
    coefficients: Iterable[str] = COEFFICIENTS,
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Correlates metrics with a target, with intervals over `clusters`, or else without.

    Args:
        prefix: Of the names of the results, PREFIX/COEFFICIENT/METRIC.
        columns: The values of each metric; one with a value missing or NaN is left out.
        headings: The metric of each row of the table, by heading.

    Returns:
        The correlations by name, and the rows of the table. Where all values of a metric are equal,
        it has no row.
    """
    metrics: dict[str, float] = {}
    rows = []
    for heading, metric in headings.items():
        values = columns.get(metric, ())
        if len(values) < len(target) or np.isnan(values).any():
            continue
        row: dict[str, Any] = {"metric": heading}
        for coefficient in coefficients:
            value = correlation(coefficient, values, target)
            if np.isnan(value):
                continue
            name = f"{prefix}/{coefficient}/{metric}"
            metrics[name], row[coefficient.title()] = value, f"{value:.2f}"
            if clusters is not None:
                low, high = correlation_interval(
                    coefficient, values, target, clusters, resamples=resamples
                )
                metrics |= with_ends(name, value, low, high)
                row[coefficient.title()] = with_interval(value, low, high)
        if len(row) > 1:
            rows.append(row)
    return metrics, rows
