"""Loggers of a run: metrics.csv in its directory, and Weights & Biases."""

import csv
import io
import os
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.loggers import CSVLogger, WandbLogger
from pytorch_lightning.loggers.csv_logs import ExperimentWriter
from pytorch_lightning.loggers.logger import rank_zero_experiment
from pytorch_lightning.utilities import rank_zero_only

from ivqa.store.files import FileError, read_text, write_text


class RunCSVLogger(CSVLogger):
    """Writes metrics.csv into the run directory; a resumed run appends to it.

    Args:
        first_step: The training step that the run starts or continues from. Rows before it stay.
    """

    def __init__(self, save_dir: str, first_step: int = 0) -> None:
        super().__init__(save_dir, name="", version="", flush_logs_every_n_steps=50)
        self.first_step = first_step

    @property
    @rank_zero_experiment
    def experiment(self) -> ExperimentWriter:
        """The writer; the first access opens the file."""
        if self._experiment is None:
            self._experiment = _KeepingWriter(self.log_dir, self.first_step)
        assert isinstance(self._experiment, ExperimentWriter)
        return self._experiment


class _KeepingWriter(ExperimentWriter):
    """Writes rows into metrics.csv and keeps those before a step, whenever the process is killed.

    Lightning's own writer deletes an existing file, and empties it while it adds a column. No
    resumed run would compute the lost rows again.
    """

    def __init__(self, log_dir: str, first_step: int) -> None:
        super().__init__(log_dir)
        file = Path(self.metrics_file_path)
        if rows := _rows_before(file, first_step):
            self.metrics_keys = sorted(set().union(*rows))
            self._write(rows)
        else:
            file.unlink(missing_ok=True)

    def _check_log_dir_exists(self) -> None:
        """Lightning's own deletes the file here."""

    def _rewrite_with_new_header(self, fieldnames: list[str]) -> None:
        del fieldnames  # self.metrics_keys
        with open(self.metrics_file_path, newline="") as stream:
            self._write(list(csv.DictReader(stream)))

    def _write(self, rows: list[dict[str, Any]]) -> None:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, self.metrics_keys)
        writer.writeheader()
        writer.writerows(rows)
        write_text(Path(self.metrics_file_path), stream.getvalue())


class RunWandbLogger(WandbLogger):
    """Logs to a W&B run whose id is stored in the run directory; a resumed run continues it.

    WANDB_MODE=offline and WANDB_MODE=disabled work as usual.
    """

    def __init__(self, save_dir: str, **options: Any) -> None:
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
    # A kill can cut the last row short; a crash of the machine can leave null bytes.
    whole = read_text(file).rpartition("\n")[0].replace("\0", "")
    rows = list(csv.DictReader(whole.splitlines()))
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
    objective of the sweep, so loggers that write to it are left out.
    """
    if loggers is None or not has_assigned_run():
        return loggers
    kept = {}
    for name, node in loggers.items():
        target = get_object(node._target_) if node is not None else None
        to_wandb = isinstance(target, type) and issubclass(target, WandbLogger)
        if target is not None and not to_wandb:
            kept[name] = node
    return OmegaConf.create(kept)


def log_results(
    cfg: DictConfig, metrics: Mapping[str, float], media: Mapping[str, Any] | None = None
) -> None:
    """Logs the results of a command to Weights & Biases, if logger=wandb is set.

    Args:
        metrics: Values by name.
        media: By name, the path of an image or an HTML page, or a pandas table.
    """
    node = (cfg.logger or {}).get("wandb")
    if node is None or rank_zero_only.rank:  # type: ignore[attr-defined]
        return
    run = instantiate(node).experiment  # continues an open run of this process
    run.log({**metrics, **{name: _medium(value) for name, value in (media or {}).items()}})


def end_wandb_run() -> None:
    """Ends the W&B run of this process, if there is one."""
    if "wandb" in sys.modules:  # importing it takes a second, which only logger=wandb shall cost
        import wandb

        if wandb.run is not None:
            wandb.finish()


def _medium(value: Any) -> Any:
    import wandb

    if isinstance(value, Path):
        if value.suffix == ".html":
            return wandb.Html(str(value), inject=False)
        return wandb.Image(str(value))
    return wandb.Table(dataframe=value)
