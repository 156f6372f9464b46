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
    """Writes metrics.csv into the run directory; a resumed run appends to it.

    Lightning's own logger deletes an existing file. This one keeps the rows before `first_step`.

    Args:
        save_dir: The run directory.
        first_step: The training step that the run starts or continues from.
    """

    def __init__(self, save_dir: str, first_step: int = 0) -> None:
        super().__init__(save_dir, name="", version="", flush_logs_every_n_steps=50)
        self._kept = _rows_before(Path(save_dir) / "metrics.csv", first_step)

    @property
    def experiment(self) -> ExperimentWriter:
        """Lightning's writer, which also holds the kept rows."""
        with warnings.catch_warnings():
            # It warns that the old file is deleted, but its rows are kept here.
            warnings.filterwarnings("ignore", message="Experiment logs directory")
            writer = super().experiment
        if self._kept:
            writer.metrics, self._kept = self._kept + writer.metrics, []
        return writer


class RunWandbLogger(WandbLogger):
    """Logs to a W&B run whose id is stored in the run directory; a resumed run continues it.

    WANDB_MODE=offline and WANDB_MODE=disabled work as usual.

    Args:
        save_dir: The run directory.
        first_step: Unused: W&B keeps the logged steps of a run id.
        **options: Arguments of Lightning's WandbLogger.
    """

    def __init__(self, save_dir: str, first_step: int = 0, **options: Any) -> None:
        file = Path(save_dir) / "wandb_id.txt"
        if not file.is_file():
            write_text(file, secrets.token_hex(4))
        super().__init__(save_dir=save_dir, id=_run_id(file), resume="allow", **options)


def _run_id(file: Path) -> str:
    found = read_text(file).strip()
    if not re.fullmatch(r"[0-9a-f]{8}", found):
        raise FileError(f"{file} does not hold a W&B run id; delete it to start a new W&B run")
    return found


def _rows_before(file: Path, step: int) -> list[dict[str, Any]]:
    """Rows of a metrics.csv with a smaller step; empty if the file does not exist."""
    if not file.is_file():
        return []
    rows = list(csv.DictReader(read_text(file).replace("\0", "").splitlines()))
    # A kill can truncate the last row; a crash of the machine can leave null bytes.
    # Rows at or after `step` are logged again by the resumed run.
    kept = [row for row in rows if (row.get("step") or "").isdigit() and int(row["step"]) < step]
    return [{key: value for key, value in row.items() if value} for row in kept]


def has_assigned_run() -> bool:
    """Whether the environment assigns one W&B run to this process and its child processes.

    `wandb agent` and `wandb launch` do so. wandb.init then ignores its argument `id`: every logger
    of the process writes to the assigned run.
    """
    return any(os.environ.get(name) for name in ("WANDB_SWEEP_ID", "WANDB_LAUNCH"))


def loggers_of_part(loggers: DictConfig | None) -> DictConfig | None:
    """Chooses the loggers of a model that is trained because the command's model needs it.

    If one W&B run is assigned to the process, it must hold only the metrics of the command and the
    objective of the sweep.

    Args:
        loggers: The nodes of `logger=`, by name.

    Returns:
        The loggers that do not write to an assigned W&B run.
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
    """Logs the results of a command to Weights & Biases, if logger=wandb is set.

    Args:
        cfg: The configuration of the command.
        metrics: Values by name.
        media: By name, the path of an image or an HTML page, or a pandas table.
    """
    node = (cfg.logger or {}).get("wandb")
    if node is None or rank_zero_only.rank:  # type: ignore[attr-defined]
        return
    run = instantiate(node).experiment  # continues an open run of this process
    run.log({**metrics, **{name: _medium(value) for name, value in (media or {}).items()}})


def _medium(value: Any) -> Any:
    if isinstance(value, Path):
        if value.suffix == ".html":
            return wandb.Html(str(value), inject=False)
        return wandb.Image(str(value))
    return wandb.Table(dataframe=value)
