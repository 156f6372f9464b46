"""Basic questions: ranking for a split, in shards, and for typed questions; merging of shards."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from ivqa.config.keys import CommandKeys
from ivqa.data import DataError, VQADataset
from ivqa.errors import UserError
from ivqa.lasso import TOLERANCE
from ivqa.ranges import AtLeastOne, Count, CountOrZero, ExistingFolder, FreeText
from ivqa.ranking.bqd_files import scores_of, write_parquet, write_records
from ivqa.ranking.bqd_ranking import BQDRanking, merge_shards
from ivqa.ranking.pools import with_answers, with_main_answers
from ivqa.report.tables import print_metrics
from ivqa.robustness.vqabq import selection_figures
from ivqa.runs.own_components import try_text_components
from ivqa.runs.run_directory import begin_run, write_config
from ivqa.store.files import write_json
from ivqa.store.identity import result_settings, to_plain
from ivqa.terminal import terminal
from ivqa.text.duplicates import duplicates_of
from ivqa.text.tokens import tokenise


class RankKeys(CommandKeys, total=False):
    """Keys of task=rank."""

    question: FreeText | Annotated[Sequence[FreeText], AtLeastOne] | None
    num_questions: Count | None
    k: Count
    exclude_duplicates: bool
    keep_answers: bool
    part_size: Count
    num_shards: Count
    shard: CountOrZero


def rank(cfg: Annotated[DictConfig, RankKeys]) -> float:
    """Ranks the pool cfg.bqd for the questions of cfg.split with cfg.ranker (task=rank).

    Writes bqd.parquet and bqd.json, or shard_S_of_N.parquet. Finished parts are stored in parts/;
    resume=DIR continues an interrupted run after them. With cfg.question, it ranks the pool for
    these questions instead, prints the rankings, and writes ranking.json.

    Returns:
        The number of main questions.

    Raises:
        UserError: A typed question has no words, or the arguments do not fit each other.
    """
    run_dir = Path(cfg.output_dir)
    typed = [] if cfg.question is None else _typed(cfg.question)
    dataset = instantiate(cfg.data)
    try_text_components(cfg, dataset, cfg.split)
    split, kept = None if typed else dataset.split(cfg.split), slice(cfg.num_questions)
    numbers = np.arange(len(typed))  # typed questions have no ids, nor images
    job = BQDRanking(
        questions=typed if split is None else split.questions[kept],
        question_ids=numbers if split is None else split.question_ids[kept],
        image_ids=numbers if split is None else split.image_ids[kept],
        pool=instantiate(cfg.bqd)(dataset),
        ranker=instantiate(cfg.ranker),
        settings=result_settings({"ranker": to_plain(cfg.ranker), "bqd": to_plain(cfg.bqd)}),
        folder=run_dir / "parts",
        k=cfg.k,
        exclude_duplicates=cfg.exclude_duplicates,
        part_size=cfg.part_size,
        shard=cfg.shard,
        num_shards=cfg.num_shards,
    )
    job.check()
    pool_splits = _annotated(cfg, dataset) if cfg.keep_answers else []
    begin_run(cfg, run_dir, resume=cfg.resume is not None)
    # Finished parts are in run_dir/parts, so an interrupted run loses at most one part.
    speed = _run(job, run_dir)
    table = job.table()
    if cfg.keep_answers:
        table = with_answers(table, dataset, pool_splits)
        table = table if split is None else with_main_answers(table, split)
    metrics = {**bqd_figures(table), "bqd/pool": float(len(job.pool)), **speed}
    title = f"basic questions of {dataset.title}"
    if split is None:
        table = table.drop_columns(["image_id", "question_id"])
        _print_rankings(table, job)
        file = run_dir / "ranking.json"
        return _finish(run_dir, file, table, metrics, title, records=file)
    whole = cfg.num_shards == 1
    file = run_dir / ("bqd.parquet" if whole else f"shard_{job.shard}_of_{job.num_shards}.parquet")
    write_parquet(file, table, {**job.origin, "keep_answers": cfg.keep_answers})
    title += f", split {dataset.name_of(cfg.split)}"
    records = run_dir / "bqd.json" if whole else None
    return _finish(run_dir, file, table, metrics, title, records=records)


def _typed(question: str | Sequence[str]) -> list[str]:
    """The typed questions; raises UserError if one has no words."""
    typed = [question] if isinstance(question, str) else list(question)
    for text in typed:
        if not tokenise(text):
            raise UserError(f"question='{text}' has no words; type a question to rank")
    return typed


def _print_rankings(table: pa.Table, job: BQDRanking) -> None:
    """Prints rank, score and basic question for each typed question [IJCV Table 1]."""
    console = terminal()
    for row in table.to_pylist():
        shown = Table(title=Text(row["question"]))
        for name, side in (("rank", "right"), ("score", "right"), ("basic question", "left")):
            shown.add_column(name, justify=side)  # type: ignore[arg-type]
        ranked = zip(row["scores"], row["basic_questions"], strict=True)
        for number, (score, text) in enumerate(ranked, start=1):
            shown.add_row(str(number), f"{score:.4f}", Text(text))
        console.print(shown)
        (same,) = duplicates_of([row["question"]], job.pool)
        for at in same if job.exclude_duplicates else ():
            note = f"left out of the ranking, because it has the same words: {job.pool[at]}"
            console.print(Text(note), soft_wrap=True)


class MergeKeys(CommandKeys, total=False):
    """Keys of task=merge."""

    shards: ExistingFolder


def merge(cfg: Annotated[DictConfig, MergeKeys]) -> float:
    """Merges the shards in the folder cfg.shards into bqd.parquet and bqd.json (task=merge).

    Returns:
        The number of main questions.

    Raises:
        DataError: Shards are missing, truncated, overlapping or of different configurations.
    """
    run_dir, folder = Path(cfg.output_dir), Path(cfg.shards)
    files = sorted(folder.rglob("shard_*_of_*.parquet"))
    if not files:
        raise DataError(
            f"{folder} holds no shard_S_of_N.parquet; give the directory of the runs of task=rank"
        )
    table, origin = merge_shards(files)
    write_config(cfg, run_dir)
    file = run_dir / "bqd.parquet"
    write_parquet(file, table, origin)
    title = f"basic questions of {len(files)} shards in {folder}"
    records = run_dir / "bqd.json"
    return _finish(run_dir, file, table, bqd_figures(table), title, records=records)


def _annotated(cfg: DictConfig, dataset: VQADataset) -> list[str]:
    """The splits of the pool, which must have annotations; checked before the ranking."""
    if cfg.bqd.get("splits") is None:
        raise UserError(
            f"keep_answers=true: {cfg.bqd._target_} has no splits=, whose answers could be kept; "
            "leave keep_answers=true out"
        )
    splits = list(cfg.bqd.splits)
    for name in splits:
        dataset.split(name).require_answers()
    return splits


class _Rate(ProgressColumn):
    """Ranked questions per second of this run, without the parts of an earlier one."""

    def render(self, task: Task) -> Text:
        """The speed, averaged over the last 15 minutes."""
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


def _run(job: BQDRanking, run_dir: Path) -> dict[str, float]:
    """Ranks the questions that are left; returns the speed, or nothing if none are left."""
    columns = (TextColumn("ranking"), BarColumn(), MofNCompleteColumn(), _Rate())
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=terminal(),
        transient=True,
        speed_estimate_period=900,
    ) as bar:
        steps = job.run()
        before = done = next(steps)
        started = time.perf_counter()
        task = bar.add_task("", total=job.size, completed=done)
        for done in steps:
            bar.update(task, completed=done)
            write_json(run_dir / "progress.json", {"questions": done, "of": job.size})
    seconds = time.perf_counter() - started
    return {"bqd/questions_per_second": (done - before) / seconds} if done > before else {}


def _finish(
    run_dir: Path,
    file: Path,
    table: pa.Table,
    metrics: dict[str, float],
    title: str,
    *,
    records: Path | None,
) -> float:
    """Writes the JSON file `records`, if any, and metrics.json, prints the metrics, and warns."""
    console = terminal()
    if records:
        write_records(records, table)
    write_json(run_dir / "metrics.json", metrics)
    print_metrics(metrics, title=title, console=console)
    if count := int(metrics.get("bqd/uncertified", 0)):
        console.print(
            f"warning: {count} of {len(table)} rankings are uncertified; their order may be wrong "
            "(column 'uncertified'). ranker.on_uncertified=error stops at such a ranking.",
            style="yellow",
        )
    console.print(f"basic questions: {file}\nrun: {run_dir}", soft_wrap=True)
    return float(len(table))


def bqd_figures(table: pa.Table) -> dict[str, float]:
    """The metrics of a BQD.

    bqd/...: sizes, the largest duality gap, the share of rankings with fewer basic questions than
    columns, and the number of uncertified rankings. vqabq/...: how many basic questions VQABQ
    selects.
    """
    figures: dict[str, Any] = {
        "bqd/main_questions": len(table),
        "bqd/distinct_main_questions": pc.count_distinct(table["question"]).as_py(),
    }
    if len(table):
        scores = scores_of(table)
        short = np.asarray(table["support"]) < scores.shape[1]
        figures |= {"bqd/gap": pc.max(table["gap"]).as_py(), "bqd/short_rankings": short.mean()}
        figures["bqd/uncertified"] = np.count_nonzero(~(np.asarray(table["gap"]) <= TOLERANCE))
        figures |= {f"vqabq/{name}": value for name, value in selection_figures(scores).items()}
    return {name: float(value) for name, value in figures.items()}
