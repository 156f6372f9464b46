"""Ranking: builds a basic question dataset (BQD) of a split."""

import time
from pathlib import Path
from typing import Annotated

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ivqa.config.keys import CommandKeys
from ivqa.data import VQADataset
from ivqa.errors import UserError
from ivqa.ranges import Count, CountOrZero
from ivqa.ranking import BQDRanking, with_answers, write_parquet
from ivqa.runs.own_components import try_text_components
from ivqa.runs.run_directory import begin_run
from ivqa.store.files import write_json
from ivqa.store.identity import result_settings, to_plain
from ivqa.tasks.basic_questions.bqd_results import bqd_figures, finish_bqd
from ivqa.terminal import terminal


class Keys(CommandKeys, total=False):
    """Keys of task=rank."""

    num_questions: Count | None
    k: Count
    exclude_duplicates: bool
    keep_answers: bool
    part_size: Count
    num_shards: Count
    shard: CountOrZero


def rank(cfg: Annotated[DictConfig, Keys]) -> float:
    """Ranks the pool cfg.bqd for the questions of cfg.split with cfg.ranker (task=rank).

    Writes bqd.parquet and bqd.json, or shard_S_of_N.parquet. Finished parts are stored in parts/;
    resume=DIR continues an interrupted run after them.

    Args:
        cfg: The configuration of evaluate.py.

    Returns:
        The number of main questions.
    """
    run_dir, console = Path(cfg.output_dir), terminal()
    dataset = instantiate(cfg.data)
    try_text_components(cfg, dataset, cfg.split)
    split, kept = dataset.split(cfg.split), slice(cfg.num_questions)
    job = BQDRanking(
        questions=split.questions[kept],
        question_ids=split.question_ids[kept],
        image_ids=split.image_ids[kept],
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
    speed = _run(job, run_dir, console)
    table = job.table()
    if cfg.keep_answers:
        table = with_answers(table, dataset, pool_splits)
    whole = cfg.num_shards == 1
    file = run_dir / ("bqd.parquet" if whole else f"shard_{job.shard}_of_{job.num_shards}.parquet")
    write_parquet(file, table, {**job.origin, "keep_answers": cfg.keep_answers})
    metrics = {**bqd_figures(table), "bqd/pool": float(len(job.pool)), **speed}
    title = f"basic questions of {dataset.title}, split {dataset.name_of(cfg.split)}"
    return finish_bqd(run_dir, file, table, metrics, title, console, records=whole)


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


def _run(job: BQDRanking, run_dir: Path, console: Console) -> dict[str, float]:
    """Ranks the questions that are left; returns the speed, or nothing if none are left."""
    columns = (TextColumn("ranking"), BarColumn(), MofNCompleteColumn(), _Rate())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, speed_estimate_period=900
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
