"""Loggers of a run: metrics.csv in its directory, and Weights & Biases."""

import csv
import os
import re
import secrets
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.loggers import CSVLogger, WandbLogger
from pytorch_lightning.loggers.csv_logs import ExperimentWriter
from pytorch_lightning.utilities import rank_zero_only

from ivqa.files import FileError, read_text, write_text


class RunCSVLogger(CSVLogger):
    """metrics.csv straight in the run directory; a resumed run goes on in the same file.

    Lightning's logger starts an existing file afresh. Here the rows before `first_step` stay.
    """

    def __init__(self, save_dir: str, first_step: int = 0) -> None:
        super().__init__(save_dir, name="", version="", flush_logs_every_n_steps=50)
        self._kept = _rows_before(Path(save_dir) / "metrics.csv", first_step)

    @property
    def experiment(self) -> ExperimentWriter:
        """The writer behind this logger, with the kept rows in it."""
        with warnings.catch_warnings():
            # It says that the old file is deleted; its rows are kept here.
            warnings.filterwarnings("ignore", message="Experiment logs directory")
            writer = super().experiment
        if self._kept:
            writer.metrics, self._kept = self._kept + writer.metrics, []
        return writer


class RunWandbLogger(WandbLogger):
    """A W&B run whose id is kept in the run directory, so that a resumed run goes on in it.

    WANDB_MODE=offline or disabled is honoured. first_step is taken and not needed: W&B keeps
    what it has by run id.
    """

    def __init__(self, save_dir: str, first_step: int = 0, **options: Any) -> None:
        file = Path(save_dir) / "wandb_id.txt"
        if not file.is_file():
            write_text(file, secrets.token_hex(4))
        super().__init__(save_dir=save_dir, id=_run_id(file), resume="allow", **options)


def _run_id(file: Path) -> str:
    found = read_text(file).strip()
    if not re.fullmatch(r"[0-9a-f]{8}", found):
        raise FileError(f"{file} holds no run id; delete it to start a new run of W&B")
    return found


def _rows_before(file: Path, step: int) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    rows = list(csv.DictReader(read_text(file).replace("\0", "").splitlines()))
    # A kill can cut the last row short, or the file where it crashed the machine.
    kept = [row for row in rows if (row.get("step") or "").isdigit() and int(row["step"]) < step]
    return [{key: value for key, value in row.items() if value} for row in kept]


def has_assigned_run() -> bool:
    """Whether the environment assigns one W&B run to this process and those that it starts.

    `wandb agent` and `wandb launch` do so. wandb.init then ignores the id that it is given: every
    logger of the process writes to the assigned run.
    """
    return any(os.environ.get(name) for name in ("WANDB_SWEEP_ID", "WANDB_LAUNCH"))


def loggers_of_part(loggers: DictConfig | None) -> DictConfig | None:
    """The configured loggers that a model trained on the way to a command's result may use.

    Args:
        loggers: The nodes of `logger=`, by name.

    Returns:
        All of them. Where one W&B run is assigned to the process, those that do not write to it:
        the assigned run holds the command's own metrics and a sweep's objective, and nothing else.
    """
    if loggers is None or not has_assigned_run():
        return loggers
    kept = {
        name: node
        for name, node in loggers.items()
        if not issubclass(get_object(node._target_), WandbLogger)
    }
    return OmegaConf.create(kept)


def log_results(
    cfg: DictConfig, metrics: Mapping[str, float], media: Mapping[str, Any] | None = None
) -> None:
    """Logs the results of a command to Weights & Biases, where logger=wandb asks for that.

    media: by name, the path of an image or an HTML page, or a pandas table.
    """
    node = (cfg.logger or {}).get("wandb")
    if node is None or rank_zero_only.rank:  # type: ignore[attr-defined]
        return
    run = instantiate(node).experiment  # one that is under way in this process goes on
    run.log({**metrics, **{name: _medium(value) for name, value in (media or {}).items()}})


def _medium(value: Any) -> Any:
    if isinstance(value, Path):
        if value.suffix == ".html":
            return wandb.Html(str(value), inject=False)
        return wandb.Image(str(value))
    return wandb.Table(dataframe=value)
