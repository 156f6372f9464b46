"""Human study: people score the questions of several models, which they do not know [iVQA 4]."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.data import DataError
from ivqa.errors import UserError
from ivqa.metrics import (
    interval,
    krippendorff_alpha,
    krippendorff_interval,
    resampled_means,
    with_ends,
)
from ivqa.ranges import AtLeastOne, Count, ExistingFile, ExistingFolder, NonEmptyText, Resamples
from ivqa.report.pages.annotation_page import HIGHEST_SCORE, ToAnnotate, write_study_page
from ivqa.report.tables import print_table, with_interval, write_table
from ivqa.runs.loggers import log_results
from ivqa.runs.run_directory import run_directories, write_config
from ivqa.store.files import write_json
from ivqa.tasks.compare import names_of_runs
from ivqa.tasks.human_study.correlate import correlations
from ivqa.tasks.human_study.items import Study, draw_study
from ivqa.tasks.human_study.ratings import read_ratings
from ivqa.terminal import terminal

_FEWEST_MODELS = 3  # a line through two points fits always
_COEFFICIENTS = ("pearson", "spearman")


class Keys(CommandKeys, total=False):
    """Keys of task=human_study."""

    runs: Annotated[Sequence[ExistingFolder], AtLeastOne] | None
    num_images: Count | None
    human: ExistingFile | Annotated[Sequence[ExistingFile], AtLeastOne] | None
    study: ExistingFolder | None
    resamples: Resamples
    metrics: Mapping[str, NonEmptyText]


def human_study(cfg: Annotated[DictConfig, Keys]) -> float:
    """Writes the page of a human study, or evaluates its ratings (task=human_study).

    With cfg.runs: annotate.html, which mixes the questions of these runs, and key.json, which tells
    the model of each question. With cfg.human, the exported files of the people: metrics.json, and
    the tables scores.*, over_models.* and over_questions.* in four formats.

    Returns:
        The number of questions; with cfg.human the highest Pearson correlation of a metric with
        the human score, over models, or over questions for fewer than three models.

    Raises:
        UserError: Neither or both of cfg.runs and cfg.human are set, or a file does not fit.
    """
    if (cfg.runs is None) == (cfg.human is None):
        raise UserError(
            "pass either runs=[RUN,...], which writes the page, or human=[FILE,...], the ratings "
            "that the page exports"
        )
    return _write_study(cfg) if cfg.human is None else _evaluate_ratings(cfg)


def _write_study(cfg: DictConfig) -> float:
    """Writes annotate.html and key.json."""
    run_dir, console = Path(cfg.output_dir), terminal()
    folders = run_directories([Path(run) for run in cfg.runs])
    split = instantiate(cfg.data).split(cfg.split).require_answers()
    split.require_images()
    runs = dict(zip(names_of_runs(folders), folders, strict=True))
    study = draw_study(runs, split, num_images=cfg.num_images, seed=cfg.seed)
    write_config(cfg, run_dir)
    key = study.write(run_dir)
    page = run_dir / "annotate.html"
    asked = [
        (item.id, ToAnnotate(item.image_id, item.answer, item.question)) for item in study.items
    ]
    write_study_page(page, study.id, asked, split)
    images = len({item.image_id for item in study.items})
    console.print(
        f"{len(study.items)} different questions of {len(runs)} models about {images} images: "
        f"{page}\nkey, which the people must not see: {key}\nresults: python evaluate.py "
        f"study={run_dir} human=[ANNA.json,BEN.json]",
        soft_wrap=True,
        highlight=False,
    )
    return float(len(study.items))


def _evaluate_ratings(cfg: DictConfig) -> float:
    """Prints and writes scores, agreement and correlations."""
    run_dir, console = Path(cfg.output_dir), terminal()
    files = [Path(file) for file in ([cfg.human] if isinstance(cfg.human, str) else cfg.human)]
    study = Study.read(files[0].parent if cfg.study is None else Path(cfg.study))
    people, ratings = read_ratings(files, study)
    images = np.array([item.image_id for item in study.items])
    scored = ~np.isnan(ratings).all(axis=0)
    scores = np.full(len(study.items), np.nan)
    scores[scored] = np.nanmean(ratings[:, scored], axis=0)

    tables: dict[str, tuple[str, list[dict[str, Any]]]] = {}
    metrics, rows = _model_scores(study, scores, images, cfg.resamples)
    title = f"human scores from 0 to {HIGHEST_SCORE}, {len(people)} people, 95 percent intervals"
    tables["scores"] = title, rows
    agreement = _agreement(ratings, images, cfg.resamples)
    metrics |= agreement | {"agreement/people": len(people)}
    metrics["agreement/ratings"] = int((~np.isnan(ratings)).sum())
    if len(study.runs) >= _FEWEST_MODELS:
        means = [metrics[f"human/{name}"] for name in study.runs]
        columns = _columns(study.metrics.values())
        found, rows = correlations(
            "models", columns, means, cfg.metrics, coefficients=_COEFFICIENTS
        )
        metrics |= found
        title = f"correlation with human scores over {len(study.runs)} models"
        tables["over_models"] = title, rows
    items = [study.items[number] for number in np.flatnonzero(scored)]
    found, rows = correlations(
        "questions",
        _columns([item.values for item in items]),
        scores[scored].tolist(),
        cfg.metrics,
        [item.image_id for item in items],
        cfg.resamples,
        _COEFFICIENTS,
    )
    metrics |= found
    title = f"correlation with human scores over {len(items)} questions, 95 percent intervals"
    tables["over_questions"] = title, rows

    write_config(cfg, run_dir)
    write_json(run_dir / "metrics.json", metrics)
    tables = {name: table for name, table in tables.items() if table[1]}
    for name, (title, rows) in tables.items():
        print_table(rows, title=title, console=console)
        write_table(run_dir, rows, title, name)
    console.print(_agreement_sentence(agreement), soft_wrap=True)
    if len(study.runs) < _FEWEST_MODELS:
        console.print(
            f"The correlation over models is left out: it needs {_FEWEST_MODELS} models, and the "
            f"study has {len(study.runs)}.",
            soft_wrap=True,
        )
    log_results(cfg, metrics, {name: pd.DataFrame(rows) for name, (_, rows) in tables.items()})
    console.print(f"run: {run_dir}", soft_wrap=True)
    level = "models" if len(study.runs) >= _FEWEST_MODELS else "questions"
    names = [f"{level}/pearson/{metric}" for metric in cfg.metrics.values()]
    return max((metrics[name] for name in names if name in metrics), default=float("nan"))


def _model_scores(
    study: Study, scores: NDArray[np.float64], image_ids: NDArray[np.int64], resamples: int
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Mean score of each model, with intervals over images: metrics and rows of the table.

    A question of several models counts for each of them.
    """
    metrics: dict[str, float] = {}
    rows = []
    for name in study.runs:
        own = np.array([name in item.models for item in study.items]) & ~np.isnan(scores)
        if not own.any():
            raise DataError(f"no question of {name} has a score; collect more ratings")
        drawn = resampled_means(scores[own][None], resamples, 0, image_ids[own])
        low, high = interval(drawn[:, 0])
        mean = float(scores[own].mean())
        metrics |= with_ends(f"human/{name}", mean, low, high)
        rows.append(
            {
                "model": name,
                "score": f"{mean:.2f}",
                "95 percent": f"{low:.2f} to {high:.2f}",
                "questions": int(own.sum()),
            }
        )
    return metrics, rows


def _agreement(
    ratings: NDArray[np.float64], image_ids: NDArray[np.int64], resamples: int
) -> dict[str, float]:
    """Alpha with its interval over images; empty where it is not defined."""
    alpha = krippendorff_alpha(ratings)
    if np.isnan(alpha):
        return {}
    ends = krippendorff_interval(ratings, image_ids, resamples=resamples)
    return with_ends("agreement/alpha", alpha, *ends)


def _agreement_sentence(agreement: Mapping[str, float]) -> str:
    if not agreement:
        return (
            "The agreement is left out: it needs questions that two people scored, and different "
            "scores."
        )
    names = ("agreement/alpha", "agreement/alpha_low", "agreement/alpha_high")
    return f"Krippendorff's alpha (interval): {with_interval(*(agreement[one] for one in names))}"


def _columns(rows: Iterable[Mapping[str, float]]) -> dict[str, list[float]]:
    """The values of each metric, without the rows that lack it."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return columns
