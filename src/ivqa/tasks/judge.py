"""Answer agreement: a VQA model judges the questions that generators asked (task=judge)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.config.model_sources import source_of
from ivqa.errors import UserError
from ivqa.metrics import interval, resampled_means
from ivqa.ranges import AtLeastOne, Checkpoint, ExistingFolder, Resamples
from ivqa.report import print_table
from ivqa.report.tables import with_interval, write_table
from ivqa.runs.context import RunContext
from ivqa.runs.data_checks import check_data
from ivqa.runs.loggers import log_results
from ivqa.runs.picture_model import answers_questions
from ivqa.runs.preparation import open_context, with_features
from ivqa.runs.run_directory import begin_run, holds_directory, run_directories
from ivqa.runs.trained_models import obtain_module
from ivqa.store.files import write_json
from ivqa.tasks.compare import names_of_runs
from ivqa.tasks.human_study.items import BestQuestion, read_questions
from ivqa.text.normalisation import normalise_answer
from ivqa.vqa import Metered
from ivqa.vqa.evaluation import answer_all

_REFERENCE = "data set"  # row of the questions that people asked


class Keys(CommandKeys, total=False):
    """Keys of task=judge."""

    ckpt: Checkpoint
    runs: Annotated[Sequence[ExistingFolder], AtLeastOne]
    resamples: Resamples


@holds_directory
def judge(cfg: Annotated[DictConfig, Keys]) -> float:
    """Asks a VQA model, cfg.model, the best questions of generators (task=judge).

    A question fits its answer if the judge gives this answer to it, after the official
    normalisation. The same is measured for the questions of the data set: no generator can expect
    more of this judge. Where an oracle judged the questions too, the share of equal verdicts tells
    how far the judge can be trusted. Writes metrics.json and table.* in four formats.

    Returns:
        The highest agreement of a run.

    Raises:
        UserError: The judge answers no questions, or a run asked about other data.
        FileError: A file of a run is missing or damaged.
    """
    # 1. The questions of the runs, before anything is computed.
    if not answers_questions(cfg.model):
        raise UserError(
            f"model={cfg.model.name} answers no questions; choose a VQA model as the judge, such "
            "as model=mlb or model=hf_generative"
        )
    folders = run_directories([Path(run) for run in cfg.runs])
    splits = list(dict.fromkeys([*source_of(cfg.model).splits, cfg.split]))
    context = open_context(cfg, splits)
    split = context.dataset.split(cfg.split).require_answers()
    asked = dict(
        zip(names_of_runs(folders), (read_questions(run, split) for run in folders), strict=True)
    )
    check_data(context, splits)
    # 2. The judge, and its answers.
    run_dir = Path(cfg.output_dir)
    begin_run(cfg, run_dir, resume=False)
    context = with_features(context, splits)
    given, usage = _answers(context, asked)
    # 3. Metrics and table.
    metrics, rows = _results(cfg, asked, given)
    metrics |= usage
    title = f"agreement of {cfg.model.name} with the answers, 95 percent intervals"
    print_table(rows, title=title, console=context.console)
    write_table(run_dir, rows, title)
    write_json(run_dir / "metrics.json", metrics)
    log_results(cfg, metrics, {"agreement": pd.DataFrame(rows)})
    context.console.print(f"run: {run_dir}", soft_wrap=True)
    return max(metrics[f"{name}/agreement"] for name in asked)


def _answers(
    context: RunContext, asked: Mapping[str, Sequence[BestQuestion]]
) -> tuple[dict[tuple[int, str], str], dict[str, float]]:
    """The judge's answer to each question about an image, and what an endpoint was asked."""
    questions = {
        (one.image_id, text): None
        for own in asked.values()
        for one in own
        for text in (one.question, one.reference)
    }
    images = np.array([image for image, _ in questions], dtype=np.int64)
    module, vocabularies, _ = obtain_module(context)
    found = answer_all(
        module,
        context.datamodule(vocabularies, module),
        context.cfg.split,
        images,
        [text for _, text in questions],
        context.console,
    )
    return (
        dict(zip(questions, map(normalise_answer, found), strict=True)),
        module.usage() if isinstance(module, Metered) else {},
    )


def _results(
    cfg: DictConfig,
    asked: Mapping[str, Sequence[BestQuestion]],
    given: Mapping[tuple[int, str], str],
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Agreement of each run, with metrics by name and rows of the table."""
    metrics: dict[str, float] = {}
    rows = []
    pairs = {one.pair: one for own in asked.values() for one in own}
    people = [one.with_question(one.reference) for one in pairs.values()]
    for name, own in ((_REFERENCE, people), *asked.items()):
        fits = np.array(
            [given[one.image_id, one.question] == normalise_answer(one.answer) for one in own]
        )
        key = "reference" if name == _REFERENCE else name
        agreement, low, high = _mean(fits, own, cfg)
        metrics |= {
            f"{key}/agreement": agreement,
            f"{key}/agreement_low": low,
            f"{key}/agreement_high": high,
        }
        row: dict[str, Any] = {"questions of": name, "number": len(own)}
        row["agreement"] = with_interval(agreement, low, high)
        if own is not people and all(one.verdict is not None for one in own):
            right = np.array([one.verdict == "consistent" for one in own])
            metrics[f"{key}/oracle_consistent"] = float(right.mean())
            metrics[f"{key}/judge_is_right"] = float((right == fits).mean())
            row["consistent (oracle)"] = float(right.mean())
            row["judge is right"] = float((right == fits).mean())
        rows.append(row)
    return metrics, rows


def _mean(
    fits: NDArray[np.bool_], own: Sequence[BestQuestion], cfg: DictConfig
) -> tuple[float, float, float]:
    """The mean and its interval; the bootstrap draws images, whose questions are alike."""
    images = [one.image_id for one in own]
    low, high = interval(resampled_means(fits[None], cfg.resamples, cfg.seed, images)[:, 0])
    return float(fits.mean()), float(low), float(high)
