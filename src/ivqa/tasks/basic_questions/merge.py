"""Merging: joins the shards of a basic question dataset (BQD)."""

from pathlib import Path
from typing import Annotated

from omegaconf import DictConfig, OmegaConf

from ivqa.config.keys import CommandKeys
from ivqa.data import DataError
from ivqa.ranges import ExistingFolder
from ivqa.ranking import merge_shards, write_parquet
from ivqa.store.files import write_text
from ivqa.tasks.basic_questions.bqd_results import bqd_figures, finish_bqd
from ivqa.terminal import terminal


class Keys(CommandKeys, total=False):
    """Keys of task=merge."""

    shards: ExistingFolder


def merge(cfg: Annotated[DictConfig, Keys]) -> float:
    """Merges the shards in the folder cfg.shards into bqd.parquet and bqd.json (task=merge).

    Args:
        cfg: The configuration of evaluate.py.

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
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    file = run_dir / "bqd.parquet"
    write_parquet(file, table, origin)
    title = f"basic questions of {len(files)} shards in {folder}"
    return finish_bqd(run_dir, file, table, bqd_figures(table), title, terminal(), records=True)
