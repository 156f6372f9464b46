"""Basic question datasets (BQD): ranking of a split's questions, and merging of its shards."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
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

from ivqa.data import DataError
from ivqa.experiment.checks import check_config, plain
from ivqa.experiment.training import note_overrides
from ivqa.files import write_json, write_text
from ivqa.identity import decisive
from ivqa.ranking import (
    TOLERANCE,
    BQDRanking,
    merge_shards,
    scores_of,
    write_parquet,
    write_records,
)
from ivqa.report import print_metrics
from ivqa.robustness import selection_figures


def rank_questions(cfg: DictConfig) -> float:
    """Ranks the questions of cfg.split against the pool cfg.bqd with cfg.ranker (task=rank).

    Writes bqd.parquet and bqd.json, or shard_S_of_N.parquet; parts/ holds what is done of a run
    that was interrupted, and resume=DIR goes on from there. Returns the number of main questions.
    """
    check_config(cfg)
    run_dir, console = Path(HydraConfig.get().runtime.output_dir), Console()
    dataset = instantiate(cfg.data)
    split, kept = dataset.split(cfg.split), slice(cfg.num_questions)
    job = BQDRanking(
        questions=split.questions[kept],
        question_ids=split.question_ids[kept],
        image_ids=split.image_ids[kept],
        pool=instantiate(cfg.bqd)(dataset),
        ranker=instantiate(cfg.ranker),
        settings=decisive({"ranker": plain(cfg.ranker), "bqd": plain(cfg.bqd)}),
        folder=run_dir / "parts",
        k=cfg.k,
        exclude_duplicates=cfg.exclude_duplicates,
        part_size=cfg.part_size,
        shard=cfg.shard,
        num_shards=cfg.num_shards,
    )
    job.check()
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    if cfg.resume is None:
        note_overrides(run_dir)
    speed = _run(job, run_dir, console)
    table = job.table()
    whole = cfg.num_shards == 1
    file = run_dir / ("bqd.parquet" if whole else f"shard_{job.shard}_of_{job.num_shards}.parquet")
    write_parquet(file, table, job.origin)
    metrics = {**_figures(table), "bqd/pool": float(len(job.pool)), **speed}
    title = f"basic questions of {dataset.root.name}, split {dataset.name_of(cfg.split)}"
    return _finish(run_dir, file, table, metrics, title, console, records=whole)


def merge_bqd(cfg: DictConfig) -> float:
    """Merges the shards in the folder cfg.shards into bqd.parquet and bqd.json (task=merge).

    Returns the number of main questions. Raises DataError for shards that are missing, cut short,
    overlapping or of different configurations.
    """
    check_config(cfg)
    run_dir, folder = Path(HydraConfig.get().runtime.output_dir), Path(cfg.shards)
    files = sorted(folder.rglob("shard_*_of_*.parquet"))
    if not files:
        raise DataError(
            f"{folder} holds no shard_S_of_N.parquet; give the directory of the runs of task=rank"
        )
    table, origin = merge_shards(files)
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    file = run_dir / "bqd.parquet"
    write_parquet(file, table, origin)
    title = f"basic questions of {len(files)} shards in {folder}"
    return _finish(run_dir, file, table, _figures(table), title, Console(), records=True)


class _Rate(ProgressColumn):
    """Questions a second, of those that this run has ranked."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.0f}/s" if task.speed else "")


def _run(job: BQDRanking, run_dir: Path, console: Console) -> dict[str, float]:
    """Ranks what is left to rank; returns the speed where that was anything."""
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


def _finish(
    run_dir: Path,
    file: Path,
    table: pa.Table,
    metrics: dict[str, float],
    title: str,
    console: Console,
    *,
    records: bool,
) -> float:
    if records:
        write_records(run_dir / "bqd.json", table)
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


def _figures(table: pa.Table) -> dict[str, float]:
    """Figures of a BQD: sizes, the worst certificate, and the selection of VQABQ."""
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
