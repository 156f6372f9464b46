"""Scoring: the result files of any VQA system, with or without noise."""

from collections.abc import Sequence
from operator import contains
from pathlib import Path
from typing import Annotated

import numpy as np
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from ivqa.config.keys import CommandKeys
from ivqa.data import VQASplit
from ivqa.data.results import read_choices, read_results
from ivqa.data.validation import listed
from ivqa.errors import UserError
from ivqa.metrics import RScore
from ivqa.ranges import AtLeastOne, Component, ExistingFile
from ivqa.report.tables import print_metrics
from ivqa.robustness.records import NoiseRecords
from ivqa.runs.loggers import log_results
from ivqa.runs.run_directory import holds_directory, write_config
from ivqa.scenes import oracle_of
from ivqa.store.files import write_json
from ivqa.tasks.consistency import divided, score_implied, show_consistency
from ivqa.tasks.noise_curve import show_noise_curve
from ivqa.terminal import terminal
from ivqa.vqa.scores import score_answers, score_choices

_FEW = 0.01  # share of failed requests that is no reason for a warning


class Keys(CommandKeys, total=False):
    """Keys of task=score."""

    predictions: ExistingFile | Annotated[Sequence[ExistingFile], AtLeastOne] | None
    write_implications: bool
    consistency: Component


@holds_directory
def score(cfg: Annotated[DictConfig, Keys]) -> float:
    """Scores the result files cfg.predictions of any VQA system (task=score).

    The first file answers the clean questions; further files answer the questions of noise levels
    1, 2, ... and give the noise curve. Questions whose request failed in a file are left out, and
    vqa/failed counts them. Writes metrics.json and robustness.parquet. cfg.write_implications
    writes the questions that follow from the answers, and files with answers to these, one a
    round, give the figures of consistency.

    Returns:
        The accuracy in [0, 1] of a single file, NaN if no question counts; the R_score of several.

    Raises:
        UserError: cfg.predictions is an empty list, or each question failed in a file.
        DataError: A result file does not fit the split.
    """
    run_dir = Path(cfg.output_dir)
    dataset = instantiate(cfg.data)
    whole = dataset.split(cfg.split)
    several = not isinstance(cfg.predictions, str)
    files = [Path(file) for file in cfg.predictions] if several else [Path(cfg.predictions)]
    if not files:
        raise UserError("predictions=[] names no result file; pass at least one")
    console = terminal()
    files, further = divided(files, whole)
    if len(files) > 1 or not (cfg.write_implications or further):
        whole.require_answers()
    split, levels = _answered(whole, files, console)
    metrics = score_answers(split, levels[0]) if split.has_answers else {}
    metrics["vqa/failed"] = float(len(whole) - len(split))
    if split.has_answers and whole.multiple_choices is not None:
        chosen = read_choices(files[0], whole)
        if chosen is not None:
            metrics |= score_choices(whole, chosen)
        elif all(map(contains, split.multiple_choices or (), levels[0])):
            metrics |= score_choices(split, levels[0])  # as in predictions_multiple_choice.json
    r_score: RScore = instantiate(cfg.r_score)
    if "vqa/accuracy" in metrics or len(levels) > 1:
        records = NoiseRecords.scored(split, levels, accuracy=r_score.accuracy)
        records.write(run_dir)
    if len(levels) > 1:
        curve = records.curve(r_score)
        metrics |= {f"robustness/{name}": value for name, value in curve.metrics().items()}
    if cfg.write_implications or further:
        measure = instantiate(cfg.consistency)
        oracle = oracle_of(dataset, cfg.split)
        root = run_dir / "implied" if cfg.write_implications else None
        metrics |= score_implied(measure, whole, files[0], further, oracle, run_dir, root, console)
    write_config(cfg, run_dir)
    write_json(run_dir / "metrics.json", metrics)
    title = f"{files[0].name} on {dataset.title}, split {split.name}"
    print_metrics(metrics, title=title, console=console)
    media = show_noise_curve(metrics, files[0].stem, run_dir, split, r_score, console)
    media |= show_consistency(metrics, files[0].stem, run_dir, split, console)
    log_results(cfg, metrics, media)
    console.print(f"run: {run_dir}", soft_wrap=True)
    return metrics.get("robustness/r_score", metrics.get("vqa/accuracy", float("nan")))


def _answered(
    whole: VQASplit, files: Sequence[Path], console: Console
) -> tuple[VQASplit, list[list[str]]]:
    """The questions that each file answers, and their answers in each file."""
    levels = [read_results(file, whole, noisy=level > 0) for level, file in enumerate(files)]
    failed = [{row for row, answer in enumerate(level) if answer is None} for level in levels]
    rows = [row for row in range(len(whole)) if not any(row in lost for lost in failed)]
    for file, lost in zip(files, failed, strict=True):
        if lost:
            ids = listed([str(whole.question_ids[row]) for row in sorted(lost)])
            share = len(lost) / len(whole)
            console.print(
                f"{'warning: ' if share > _FEW else ''}{file.name}: {len(lost)} of {len(whole)} "
                f"requests failed ({share:.1%}); these questions are left out: {ids}",
                style="yellow" if share > _FEW else None,
                soft_wrap=True,
            )
    if not rows:
        raise UserError("each question failed in one of the files; ask the model again")
    answers = [[answer for row in rows if (answer := level[row]) is not None] for level in levels]
    return whole if len(rows) == len(whole) else whole.select(np.array(rows)), answers
