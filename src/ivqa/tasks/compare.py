"""Comparison of evaluated models, question by question: evaluate.py compare=[RUN_A,RUN_B]."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.diagnosis import read_beliefs, read_reasons
from ivqa.errors import UserError
from ivqa.metrics import RScore
from ivqa.ranges import ExistingFolder
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.model_names import title_of
from ivqa.report.noise_words import accuracy_in_words, below_blind, ends_of_score
from ivqa.report.pages.belief_page import MOST_MODELS
from ivqa.report.pages.noise_page import write_noise_page
from ivqa.report.plots import write_noise_curve
from ivqa.report.tables import markdown_table, print_table
from ivqa.robustness.comparison import common_questions, paired_differences
from ivqa.robustness.records import NoiseRecords
from ivqa.runs.loggers import log_results
from ivqa.runs.run_directory import read_config, read_metrics, write_config
from ivqa.store.files import write_json, write_text
from ivqa.tasks.noise_curve import r_score_of
from ivqa.terminal import terminal

_PLACES = ("first", "second", "third", "fourth")
_DIFFERENCES = ("compare", "compare_third", "compare_fourth")  # each from the first model


class Keys(CommandKeys, total=False):
    """Keys of task=compare."""

    compare: Sequence[ExistingFolder]


def compare(cfg: Annotated[DictConfig, Keys]) -> float:
    """Compares the runs of cfg.compare at every level of noise, each with the first (task=compare).

    Writes metrics.json (first/..., second/..., third/... and fourth/..., and compare/..., which is
    second - first, compare_third/... and compare_fourth/...), table.md, all curves in
    robustness.png, and robustness.html with questions whose answers change.

    Returns:
        The difference of the first two R_scores; of the accuracies if no noise was measured.

    Raises:
        UserError: There are not two to four runs, they have no question in common, or one of them
            has no robustness.parquet.
    """
    runs = [Path(run) for run in cfg.compare]
    if not 2 <= len(runs) <= len(_PLACES):
        raise UserError(f"compare= takes two to four run directories, not {len(runs)}")
    records = common_questions([NoiseRecords.read(run) for run in runs])
    names = names_of_runs(runs)
    r_score: RScore = instantiate(cfg.r_score)
    metrics: dict[str, float] = {}
    for group, other in zip(_DIFFERENCES, records[1:], strict=False):
        differences = paired_differences(records[0], other, r_score=r_score)
        metrics |= {f"{group}/{name}": value for name, value in differences.items()}
    curves: dict[str, dict[str, float]] = {}
    for place, name, own in zip(_PLACES, names, records, strict=False):
        figures = own.curve(r_score).metrics()
        curves[name] = {f"robustness/{key}": value for key, value in figures.items()}
        metrics |= {f"{place}/{key}": value for key, value in figures.items()}

    rows = _rows(metrics, names, len(records[0].accuracies))
    run_dir = Path(cfg.output_dir)
    write_config(cfg, run_dir)
    write_json(run_dir / "metrics.json", metrics)
    noisy = len(records[0].accuracies) > 1
    words = accuracy_in_words(r_score.accuracy)
    notes = [f"{words.capitalize()}. {ends_of_score(r_score)}"] if noisy else []
    notes += [line for name, one in curves.items() for line in below_blind(name, one)]
    write_text(run_dir / "table.md", "\n".join([markdown_table(rows), *notes]) + "\n" * bool(notes))
    write_noise_curve(run_dir / "robustness.png", curves)
    models = list(zip(names, records, strict=True))
    against = f"{', '.join(names[1:])} against {names[0]}"
    # The runs do not say where their pictures are, so the page shows the questions alone.
    write_noise_page(run_dir / "robustness.html", against, models, None, r_score)
    media = {"noise_curves": run_dir / "robustness.png", "comparison": pd.DataFrame(rows)}
    log_results(cfg, metrics, media)
    console = terminal()
    title = f"{against}, {len(records[0])} questions, 95 percent intervals"
    print_table(rows, title=title, console=console)
    for note in notes:
        console.print(note, soft_wrap=True, markup=False, highlight=False)
    console.print(
        f"picture: {run_dir / 'robustness.png'}\n"
        f"answers that change: {run_dir / 'robustness.html'}\nrun: {run_dir}",
        soft_wrap=True,
    )
    # Runs without noise have no R_score; level 0 is clean.
    difference = "compare/r_score_difference_1"
    return metrics.get(difference, metrics["compare/partition_0/accuracy_difference"])


def names_of_runs(runs: Sequence[Path]) -> list[str]:
    """Distinct names of runs.

    What people call the names in their configurations; if these are equal, with the seeds; then the
    names of the folders; then their paths.
    """
    names, seeds = [], []
    for run in runs:
        stored = read_config(run)
        name = title_of(str(stored.get("name") or run.name))
        names.append(name)
        seeds.append(f"{name}, seed {stored['seed']}" if "seed" in stored else name)
    for found in (names, seeds, [run.name for run in runs]):
        if len(set(found)) == len(found):
            return found
    return [str(run) for run in runs]


def finished_diagnoses(folders: Sequence[Path], name: str) -> list[BeliefPageModel]:
    """Beliefs and metrics of other runs, to show beside the model `name`."""
    if len(folders) >= MOST_MODELS:
        raise UserError(
            f"compare: the report shows at most {MOST_MODELS} models, so name at most "
            f"{MOST_MODELS - 1} runs, not {len(folders)}"
        )
    for folder in folders:
        if not (folder / "metrics.json").is_file():
            raise UserError(
                f"compare: {folder} holds no finished diagnosis (metrics.json is missing)"
            )
    return [
        BeliefPageModel(
            own if own != name else f"{own}, {folder.name}",
            read_beliefs(folder / "beliefs.jsonl"),
            read_metrics(folder / "metrics.json"),
            read_reasons(folder / "reasons.jsonl"),
            r_score_of(folder),
        )
        for own, folder in zip(names_of_runs(folders), folders, strict=True)
    ]


def _rows(metrics: dict[str, float], names: Sequence[str], levels: int) -> list[dict[str, Any]]:
    """Rows of the table, one for each level of noise."""
    rows = []
    for level in range(levels):
        at = f"partition_{level}"
        row: dict[str, Any] = {"level": str(level) if level else "0, clean"}
        row |= {
            name: metrics[f"{place}/{at}/accuracy"]
            for place, name in zip(_PLACES, names, strict=False)
        }
        for group, name in zip(_DIFFERENCES, names[1:], strict=False):
            # With two models it is clear which difference is meant.
            of = "" if len(names) == 2 else f" of {name}"
            row[f"difference{of}"] = _with_interval(metrics, f"{group}/{at}/accuracy_difference")
            row[f"only {names[0]}{f', not {name}' if of else ''}"] = int(
                metrics[f"{group}/{at}/only_first"]
            )
            row[f"only {name}{f', not {names[0]}' if of else ''}"] = int(
                metrics[f"{group}/{at}/only_second"]
            )
            row[f"McNemar's p{of}"] = f"{metrics[f'{group}/{at}/p_value']:.2g}"
            if level:
                for own, place in ((names[0], "first"), (name, _PLACES[names.index(name)])):
                    lost = metrics[f"{place}/partition_0/accuracy"]
                    lost -= metrics[f"{place}/{at}/accuracy"]
                    row[f"points lost, {own}"] = f"{100 * lost:.1f}"
                row[f"R_score difference{of}"] = _with_interval(
                    metrics, f"{group}/r_score_difference_{level}"
                )
        for place, name in zip(_PLACES, names, strict=False):
            if (cut := metrics.get(f"{place}/{at}/truncated")) is not None:
                row[f"cut questions, {name}"] = f"{cut:.1%}"
        rows.append(row)
    return rows


def _with_interval(metrics: dict[str, float], name: str) -> str:
    """A difference with its confidence interval: "+0.012 [-0.003, +0.027]"."""
    low, high = metrics[f"{name}_low"], metrics[f"{name}_high"]
    return f"{metrics[name]:+.3f} [{low:+.3f}, {high:+.3f}]"
