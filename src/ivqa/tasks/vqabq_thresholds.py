"""Thresholds of VQABQ for a model, and its accuracy with them [IJCV, Tables 5 to 7]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig

from ivqa.config.keys import CommandKeys
from ivqa.config.model_sources import source_of
from ivqa.errors import UserError
from ivqa.metrics import interval, resampled_means, with_ends
from ivqa.ranges import AtLeastOne, Checkpoint, Count, NonEmptyText, Resamples
from ivqa.report.tables import print_table, write_table
from ivqa.robustness import VQABQ, RobustnessCallback
from ivqa.robustness.records import NoiseRecords
from ivqa.robustness.vqabq import (
    RATIOS,
    BestBasicQuestions,
    ThreeThresholds,
    ThresholdSearch,
    differs_when_independent,
    helpful_counts,
    ratio_statistics,
    selected,
)
from ivqa.runs.context import RunContext
from ivqa.runs.loggers import log_results
from ivqa.runs.picture_model import answers_questions
from ivqa.runs.preparation import open_context, with_features
from ivqa.runs.run_directory import begin_run, holds_directory
from ivqa.runs.trained_models import obtain_module
from ivqa.store.files import write_json


class Keys(CommandKeys, total=False):
    """Keys of task=vqabq_thresholds."""

    ckpt: Checkpoint
    search_split: NonEmptyText
    deviations: Annotated[Sequence[float], AtLeastOne]
    num_questions: Count | None
    resamples: Resamples


@holds_directory
def vqabq_thresholds(cfg: Annotated[DictConfig, Keys]) -> float:
    """Searches the thresholds of VQABQ for cfg.model and measures it (task=vqabq_thresholds).

    The thresholds with the highest accuracy on cfg.search_split, among mean + d * deviation of the
    ratios there for each d of cfg.deviations, stand beside those of cfg.noise, the paper's. The
    model answers each question with 0, 1, 2 and 3 of its best basic questions once. Writes
    metrics.json, the table of selections and accuracies (table.*), and that of the ratios
    (statistics.*).

    Returns:
        The accuracy on cfg.split with the thresholds that the search finds.

    Raises:
        UserError: The model answers no questions, noise= is not vqabq, or a split has no
            annotations.
    """
    if not answers_questions(cfg.model):
        raise UserError(
            f"model={cfg.model.name} answers no questions; choose a VQA model, such as "
            "model=hiecoatt"
        )
    noise = instantiate(cfg.noise)
    if not isinstance(noise, VQABQ):
        raise UserError("task=vqabq_thresholds searches thresholds for noise=vqabq; choose it")
    # 1. Data, and a check that every question has a ranking, before anything is computed.
    splits = list(dict.fromkeys([*source_of(cfg.model).splits, cfg.search_split, cfg.split]))
    context = open_context(cfg, splits)
    callback = RobustnessCallback(
        BestBasicQuestions(noise.source),
        pool=instantiate(cfg.bqd),
        num_questions=cfg.num_questions,
        seed=cfg.seed,
    )
    measured_splits = list(dict.fromkeys([cfg.search_split, cfg.split]))
    for name in measured_splits:
        callback.check_data(context.dataset, name)
    # 2. The answers of the model.
    run_dir = Path(cfg.output_dir)
    begin_run(cfg, run_dir, resume=False)
    context = with_features(context, splits)
    answered = _answered(context, callback, noise, measured_splits)
    # 3. The search, and what both triples of thresholds give.
    found = answered[cfg.search_split]
    search = ThresholdSearch(found.scores, found.records.accuracies, cfg.deviations)
    triples = {"published": noise.thresholds, "searched": search.best}
    metrics = {
        f"{name}/s{number}": float(value)
        for name, triple in triples.items()
        for number, value in enumerate(triple, start=1)
    }
    metrics["searched/combinations"] = float(search.means(found.records.accuracies).size)
    for role, name in (("search", cfg.search_split), ("reported", cfg.split)):
        figures = _figures(answered[name], triples, cfg.resamples, cfg.seed)
        metrics |= {f"{role}/{key}": value for key, value in figures.items()}
    _show(context, metrics, run_dir)
    return metrics["reported/searched/accuracy"]


@dataclass(frozen=True, eq=False)
class _Answered:
    """The answers to the N questions of a split: level L is that with L basic questions.

    `scores` (N, k) are those of the basic questions, best first.
    """

    records: NoiseRecords
    scores: NDArray[Any]


def _answered(
    context: RunContext, callback: RobustnessCallback, noise: VQABQ, splits: Sequence[str]
) -> dict[str, _Answered]:
    """The answers of the model to the questions of each split."""
    module, vocabularies, _ = obtain_module(context)
    datamodule = context.datamodule(vocabularies, module)
    found = {}
    for split in splits:
        records, _ = callback.measure(module, datamodule, split)
        assert records.questions is not None
        pool = instantiate(context.cfg.bqd)(context.dataset)
        found[split] = _Answered(records, noise.source.ranked(records.questions[0], pool)[1])
    return found


def _figures(
    own: _Answered, triples: Mapping[str, ThreeThresholds], resamples: int, seed: int
) -> dict[str, float]:
    """The figures of one split: questions, accuracy without basic questions, ratios, and triples.

    Each triple has the share and number of questions with 0 to 3 basic questions, the share whose
    selection the independent reading of Algorithm 1 changes, the accuracy, and what it gains.
    """
    accuracies = own.records.accuracies
    figures = {
        "questions": float(len(own.scores)),
        "accuracy": float(accuracies[0].mean()),
        **ratio_statistics(own.scores),
    }
    for name, thresholds in triples.items():
        counts = helpful_counts(own.scores, thresholds)
        chosen = selected(accuracies, counts)
        gain = chosen - accuracies[0]
        drawn = resampled_means(gain[None], resamples, seed, own.records.image_ids)
        figures |= {
            f"{name}/accuracy": float(chosen.mean()),
            **with_ends(f"{name}/gain", gain.mean(), *interval(drawn[:, 0])),
            f"{name}/independent_reading_differs": differs_when_independent(own.scores, thresholds),
        }
        for count in range(4):
            figures[f"{name}/helpful_{count}"] = float((counts == count).mean())
            figures[f"{name}/questions_{count}"] = float((counts == count).sum())
    return figures


def _show(context: RunContext, metrics: dict[str, float], run_dir: Path) -> None:
    """Writes the metrics and prints both tables."""
    cfg, console = context.cfg, context.console
    splits = {
        role: context.dataset.name_of(name)
        for role, name in (("search", cfg.search_split), ("reported", cfg.split))
    }
    if splits["search"] == splits["reported"]:
        del splits["search"]
        console.print(
            "warning: the thresholds are chosen on the questions that are reported; choose another "
            "search_split=",
            style="yellow",
        )
    statistics = [
        {
            "": f"{name.replace('_over_', ' / ')}, {split}",
            "mean": metrics.get(f"{role}/{name}", float("nan")),
            "deviation": metrics.get(f"{role}/{name}_std", float("nan")),
        }
        for role, split in splits.items()
        for name in RATIOS
    ]
    rows: list[dict[str, Any]] = [{"thresholds": "no basic questions"}]
    for name in ("published", "searched"):
        triple = ", ".join(f"{metrics[f'{name}/s{number}']:.2f}" for number in (1, 2, 3))
        rows.append({"thresholds": f"{name} ({triple})"})
        for count in range(4):
            number = int(metrics[f"reported/{name}/questions_{count}"])
            share = metrics[f"reported/{name}/helpful_{count}"]
            rows[-1][f"{count} basic questions"] = f"{number} ({share:.2%})"
    for role, split in splits.items():
        for row, key in zip(rows, ("", "published/", "searched/"), strict=True):
            row[f"accuracy, {split}"] = f"{metrics[f'{role}/{key}accuracy']:.2%}"
    for row, name in zip(rows[1:], ("published", "searched"), strict=True):
        low, high = (100 * metrics[f"reported/{name}/gain_{end}"] for end in ("low", "high"))
        gain = 100 * metrics[f"reported/{name}/gain"]
        row["points gained"] = f"{gain:+.2f} ({low:+.2f}, {high:+.2f})"
    title = f"VQABQ with {cfg.model.name}, split {splits['reported']}, 95 percent intervals"
    write_json(run_dir / "metrics.json", metrics)
    write_table(run_dir, statistics, "scores of basic questions", "statistics")
    write_table(run_dir, rows, title)
    print_table(statistics, title="scores of basic questions", console=console)
    print_table(rows, title=title, console=console)
    log_results(cfg, metrics, {"vqabq": pd.DataFrame(rows)})
    console.print(f"run: {run_dir}", soft_wrap=True)
