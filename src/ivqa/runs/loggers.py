"""Loggers of a run: metrics.csv in its directory, Weights & Biases, MLflow, any of Lightning."""

import csv
import io
import os
import re
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from PIL import Image
from pytorch_lightning.loggers import (
    CSVLogger,
    Logger,
    MLFlowLogger,
    TensorBoardLogger,
    WandbLogger,
)
from pytorch_lightning.loggers.csv_logs import ExperimentWriter
from pytorch_lightning.loggers.logger import rank_zero_experiment
from pytorch_lightning.utilities import rank_zero_only
from typing_extensions import override

from ivqa.errors import UserError
from ivqa.provenance import environment
from ivqa.store.files import FileError, read_text, write_text
from ivqa.store.identity import to_plain

_WANDB_ID, _MLFLOW_ID = "wandb_id.txt", "mlflow_id.txt"
# What logger.wandb.upload= uploads: the type of the artifact, and files of the run directory.
_ARTIFACTS = {
    "pages": ("report", "*.html"),
    "challenge": ("dataset", "challenge"),
    "checkpoint": ("model", "checkpoints/best.ckpt"),
}
_LONGEST_GROUP = 128  # characters that W&B allows


class RunCSVLogger(CSVLogger):
    """Writes metrics.csv into the run directory; a resumed run appends to it.

    Args:
        first_step: The training step that the run starts or continues from. Rows before it stay.
    """

    def __init__(self, save_dir: str, first_step: int = 0) -> None:
        super().__init__(save_dir, name="", version="", flush_logs_every_n_steps=50)
        self.first_step = first_step

    @override
    def log_hyperparams(self, params: Any = None) -> None:
        """Writes nothing: config.yaml and provenance.json hold them."""

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

    Args:
        save_dir: The run directory.
        group: Name that related runs share; None for the folder of the command, or of its multirun.
        upload: What becomes an artifact at the end: the HTML pages, the challenging test set, and
            the best checkpoint of a training.
    """

    def __init__(
        self,
        save_dir: str,
        group: str | None = None,
        upload: Sequence[Literal["pages", "challenge", "checkpoint"]] = (),
        **options: Any,
    ) -> None:
        file = Path(save_dir) / _WANDB_ID
        if not file.is_file():
            write_text(file, secrets.token_hex(4))
        super().__init__(
            save_dir=save_dir,
            id=_run_id(file),
            resume="allow",
            group=group or _command_folder(),
            **options,
        )
        if self._wandb_init.get("anonymous") is None:  # newer versions warn of the setting itself
            self._wandb_init.pop("anonymous", None)
        self._run_dir, self._uploaded = Path(save_dir), list(upload)

    @override
    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:
        """Adds settings to the configuration of the run; an agent has set those of its sweep."""
        known = self.experiment.config.keys() if has_assigned_run() else ()
        super().log_hyperparams({key: x for key, x in params.items() if key not in known})

    def log_results(self, metrics: Mapping[str, float], media: Mapping[str, Any]) -> None:
        """Writes the summary of the run, its tables and pictures, and its artifacts."""
        import wandb

        run = self.experiment
        run.summary.update(dict(metrics))
        shown = {name: _medium(value) for name, value in media.items()}
        if has_assigned_run():  # W&B documents that a sweep reads its objective from the history
            shown = {**metrics, **shown}
        if shown:
            run.log(shown)
        for name in self._uploaded:
            kind, pattern = _ARTIFACTS[name]
            artifact = wandb.Artifact(f"{name}-{run.id}", kind)
            for path in sorted(self._run_dir.glob(pattern)):
                add = artifact.add_dir if path.is_dir() else artifact.add_file
                add(str(path), name=path.name)
            if artifact.manifest.entries:
                run.log_artifact(artifact)


class RunMLFlowLogger(MLFlowLogger):
    """Logs to an MLflow run whose id is stored in the run directory; a resumed run continues it.

    Args:
        save_dir: The run directory.
    """

    def __init__(self, save_dir: str, **options: Any) -> None:
        self._id_file = Path(save_dir) / _MLFLOW_ID
        known = read_text(self._id_file).strip() if self._id_file.is_file() else None
        super().__init__(run_id=known, **options)

    @override
    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:
        """Adds new parameters to the run; MLflow refuses other values of known ones."""
        known = self.experiment.get_run(self.run_id).data.params
        super().log_hyperparams({key: x for key, x in params.items() if key not in known})
        write_text(self._id_file, str(self.run_id))


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


def loggers_of_part(loggers: DictConfig | None, model: str) -> DictConfig | None:
    """The loggers of a model that is trained because the command's model needs it.

    In W&B it is a run of the command's group, with the name of the model. If one W&B run is
    assigned to the process, that run must hold only the metrics of the command and the objective
    of the sweep, so loggers that write to it are left out.
    """
    kept = {}
    for name, node in (loggers or {}).items():
        target = get_object(node._target_) if node is not None else None
        if isinstance(target, type) and issubclass(target, WandbLogger):
            if has_assigned_run():
                continue
            node = OmegaConf.merge(node, {"name": model, "job_type": "part"})
        if target is not None:
            kept[name] = node
    return None if loggers is None else OmegaConf.create(kept)


@rank_zero_only
def check_wandb(loggers: DictConfig | None) -> None:
    """Raises a UserError if W&B is a logger and has no key; in a terminal, W&B asks for one."""
    targets = [get_object(node._target_) for node in (loggers or {}).values() if node is not None]
    wanted = any(isinstance(one, type) and issubclass(one, WandbLogger) for one in targets)
    if not wanted or os.environ.get("WANDB_MODE") in ("offline", "disabled", "dryrun"):
        return
    import wandb

    try:
        wandb.login()
    except wandb.errors.UsageError:
        remedy = "run: wandb login, or set WANDB_MODE=offline"
        text = f"logger=wandb: Weights & Biases has no key on this machine; {remedy}"
        raise UserError(text) from None


def build_loggers(cfg: DictConfig) -> list[Logger]:
    """Builds the configured loggers and gives them the configuration, versions and machine."""
    loggers = [instantiate(node) for node in (cfg.logger or {}).values() if node is not None]
    if any(not isinstance(logger, RunCSVLogger) for logger in loggers):
        settings = hyperparameters(cfg)
        for logger in loggers:
            logger.log_hyperparams(settings)
    return loggers


def hyperparameters(cfg: DictConfig) -> dict[str, Any]:
    """The configuration, versions and machine by dotted key, as overrides and sweeps name them."""
    settings = {key: x for key, x in to_plain(cfg).items() if key not in ("command", "logger")}
    return dict(_flat({**settings, "environment": environment()}))


def _flat(node: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def log_results(
    cfg: DictConfig, metrics: Mapping[str, float], media: Mapping[str, Any] | None = None
) -> None:
    """Logs the results of a command that trains nothing itself to its loggers; see `give_results`.

    Args:
        media: By name, the path of an image or an HTML page, a pandas table, or a function without
            arguments that returns one; a cell may hold a picture. W&B alone receives them.
    """
    if rank_zero_only.rank:  # type: ignore[attr-defined]
        return
    if cfg.get("resume") is None:
        forget_runs(Path(cfg.output_dir))
    give_results(build_loggers(cfg), metrics, 0, media)


def give_results(
    loggers: Iterable[Logger],
    metrics: Mapping[str, float],
    step: int,
    media: Mapping[str, Any] | None = None,
) -> None:
    """Gives the values of metrics.json to loggers, as the last value of each metric.

    In W&B they are the summary of the run, without a history.
    """
    for logger in loggers:
        if isinstance(logger, RunWandbLogger):
            logger.log_results(metrics, media or {})
        elif isinstance(logger, TensorBoardLogger):  # its table of runs needs both at once
            logger.log_hyperparams(dict(logger.hparams), dict(metrics), step)
            logger.finalize("success")
        elif not isinstance(logger, RunCSVLogger):  # metrics.json stands beside metrics.csv
            logger.log_metrics(dict(metrics), step)
            logger.finalize("success")


def forget_runs(run_dir: Path) -> None:
    """Deletes the ids of runs of trackers, so that a command starts new ones."""
    if not rank_zero_only.rank:  # type: ignore[attr-defined]
        for name in (_WANDB_ID, _MLFLOW_ID):
            (run_dir / name).unlink(missing_ok=True)


def _command_folder() -> str | None:
    """The folder of the command, or of the multirun that it is a job of; None under an agent."""
    if not HydraConfig.initialized() or has_assigned_run():
        return None
    hydra_cfg = HydraConfig.get()
    is_job = hydra_cfg.mode is RunMode.MULTIRUN
    folder = Path(hydra_cfg.sweep.dir if is_job else hydra_cfg.runtime.output_dir)
    inside = folder.is_absolute() and folder.is_relative_to(Path.cwd())
    shown = folder.relative_to(Path.cwd()) if inside else folder
    return "/".join(shown.parts[-4:])[-_LONGEST_GROUP:]


def end_wandb_run() -> None:
    """Ends the W&B run of this process, if there is one."""
    if "wandb" in sys.modules:  # importing it takes a second, which only logger=wandb shall cost
        import wandb

        if wandb.run is not None:
            wandb.finish()


def _medium(value: Any) -> Any:
    import wandb

    if callable(value):
        value = value()
    if isinstance(value, Path):
        if value.suffix == ".html":
            return wandb.Html(str(value), inject=False)
        return wandb.Image(str(value))
    pictures = [name for name in value if any(isinstance(one, Image.Image) for one in value[name])]
    table = wandb.Table(dataframe=value.drop(columns=pictures))
    for name in pictures:
        table.add_column(name, [wandb.Image(one) for one in value[name]])
    return table
