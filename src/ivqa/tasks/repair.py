"""Repair: a VQA model is trained again with its own wrong beliefs, corrected."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig

from ivqa.config.model_sources import source_of
from ivqa.data.extended import check_extensible
from ivqa.errors import UserError
from ivqa.ranges import Component
from ivqa.report.tables import print_table, write_table
from ivqa.runs.loggers import log_results
from ivqa.runs.preparation import open_context, with_features
from ivqa.runs.run_directory import begin_run, holds_directory
from ivqa.store.files import write_json
from ivqa.store.versions import versioned
from ivqa.tasks import diagnose
from ivqa.tasks.repair_run import RepairRun, RepairSettings

__all__ = ["RepairSettings", "repair"]  # the names in conf/experiment/repair.yaml

# Columns of the table: heading, figure.
_COLUMNS = {
    "added questions": "added_questions",
    "wrong": "wrong_rate",
    "adversarial": "adversarial",
    "irrelevant": "irrelevant",
    "beliefs a pair": "per_pair",
    "correct a pair": "correct_per_pair",
    "contradictions": "contradictions",
    "consistency": "consistency",
    "accuracy": "accuracy",
    "accuracy lost by noise": "acc_diff",
    "R_score": "r_score",
    "not above blind": "below_blind",  # 1: R_score says nothing
}


class Keys(diagnose.Keys, total=False):
    """Keys of experiment=repair."""

    repair: Component


@holds_directory
@versioned(2)  # of the figures, which tables rest on
def repair(cfg: Annotated[DictConfig, Keys]) -> float:
    """Trains cfg.vqa again with its corrected wrong beliefs, in rounds (experiment=repair).

    Two controls are trained with as many questions about the same images, unless
    repair.controls=false: ordinary questions, and training questions under noise. Writes the
    beliefs of each model, the added questions in VQA format (added/), table.md, .csv, .tex and
    .html, and metrics.json into the run directory.

    Returns:
        The wrong rate of the repaired model on the images of cfg.split.

    Raises:
        UserError: The VQA model cannot be trained here, or the data do not fit.
    """
    _check_trains(cfg)
    splits = list(dict.fromkeys(["train", "val", cfg.split]))
    context = open_context(cfg, splits)
    check_extensible(context.dataset)
    for split in splits:
        context.dataset.split(split).require_answers()
    context = with_features(context, splits)
    run_dir = Path(cfg.output_dir)
    begin_run(cfg, run_dir, resume=cfg.resume is not None)
    write_json(run_dir / "progress.json", {"models": []})  # resume= continues runs that have one
    runs = RepairRun(context, run_dir, instantiate(cfg.repair))
    # 1. Rounds: each model is trained with the corrections of all models before it.
    models = runs.rounds()
    best = min(models[1:] or models, key=runs.wrong_rate)
    # 2. Two controls with as many questions about the same images.
    compared = runs.settings.controls and best.added is not None
    controls = runs.controls(best) if compared else []
    # 3. All models on held-out images.
    figures = {model.name: runs.figures(model) for model in [*models, *controls]}
    rows, metrics = repair_table(figures, best.name)
    title = f"Repair of {cfg.vqa.name} on {context.dataset.title}, split {cfg.split}"
    write_table(run_dir, rows, title)
    write_json(run_dir / "metrics.json", metrics)  # last: a run with it is finished
    print_table(rows, title=title, console=context.console)
    log_results(cfg, metrics, {"repair": pd.DataFrame(rows).replace("", np.nan)})
    for model in [*models, *controls]:
        context.console.print(f"{model.name}: {model.checkpoint}", soft_wrap=True)
    context.console.print(f"run: {run_dir}", soft_wrap=True)
    return metrics.get("repaired/wrong_rate", float("nan"))


def _check_trains(cfg: DictConfig) -> None:
    """Raises UserError where the VQA model, or a part that a repair needs, does not fit."""
    if source_of(cfg.vqa).refusal:
        raise UserError(
            f"experiment=repair trains the VQA model again, and ivqa does not train vqa="
            f"{cfg.vqa.name}; choose a model that it trains, such as vqa=mlb"
        )
    if cfg.vqa.get("trained_on"):
        raise UserError(
            f"experiment=repair adds questions to data=, and vqa={cfg.vqa.name} is trained on "
            "other data (vqa.trained_on); choose a model that is trained on data=, such as vqa=mlb"
        )
    if str(cfg.model.part_ckpt.answerer) != "auto":
        raise UserError(
            "experiment=repair trains the VQA model itself: leave model.part_ckpt.answerer=auto"
        )


def repair_table(
    figures: Mapping[str, Mapping[str, float]], repaired: str
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Arranges the figures of models by name ("before", "round_1"); the repair keeps `repaired`.

    Returns:
        One row for each model, in the same order, with "" for a figure that it lacks; and the
        metrics MODEL/FIGURE, those of the repaired model as repaired/FIGURE too.
    """
    rows: list[dict[str, Any]] = []
    metrics: dict[str, float] = {}
    for model, own in figures.items():
        names = [model, *(["repaired"] if model == repaired else [])]
        shown = {heading: own.get(figure, "") for heading, figure in _COLUMNS.items()}
        rows.append({"model": ", ".join(names).replace("_", " "), **shown})
        metrics |= {f"{name}/{figure}": value for name in names for figure, value in own.items()}
    return rows, metrics
