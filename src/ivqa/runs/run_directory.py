"""The files of a run directory: config.yaml, overrides.yaml, metrics.json and checkpoints/."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import wraps
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.utilities import rank_zero_only

from ivqa.data.validation import shown
from ivqa.errors import UserError
from ivqa.runs.checkpoints import load_checkpoint
from ivqa.store.files import FileError, read_json, read_yaml, write_text
from ivqa.store.locks import try_lock
from ivqa.store.weights import training_state


def write_config(cfg: DictConfig, run_dir: Path) -> None:
    """Creates a run directory with the configuration in config.yaml."""
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))


def read_config(run_dir: Path) -> dict[str, Any]:
    """The config.yaml of a run; {} without one; raises FileError where it is damaged."""
    file = run_dir / "config.yaml"
    return read_yaml(file, dict) if file.is_file() else {}


def begin_run(cfg: DictConfig, run_dir: Path, *, resume: bool) -> None:
    """Creates a run directory with config.yaml, and with overrides.yaml, which resume= reads.

    A resumed run keeps its overrides.yaml.
    """
    write_config(cfg, run_dir)
    if not resume:
        # Hydra overwrites its own copy when the run is resumed.
        overrides = OmegaConf.create(list(HydraConfig.get().overrides.task))
        write_text(run_dir / "overrides.yaml", OmegaConf.to_yaml(overrides))


def holds_directory(task: Callable[[DictConfig], float]) -> Callable[[DictConfig], float]:
    """Lets one process at a time run a task in cfg.output_dir, with all processes of its training.

    The lock vanishes with its process. On a file system without locks nothing is held. Where
    another process holds the directory, the task raises UserError.
    """

    @wraps(task)
    def alone(cfg: DictConfig) -> float:
        run_dir = Path(cfg.output_dir)
        with ExitStack() as held:
            if rank_zero_only.rank == 0:  # type: ignore[attr-defined]
                run_dir.mkdir(parents=True, exist_ok=True)
                with suppress(FileError):
                    lock = try_lock(run_dir / ".lock")
                    if lock is None:
                        raise UserError(
                            f"output_dir={run_dir}: another process runs there; wait until it "
                            "ends, or choose another output_dir"
                        )
                    held.callback(lock.release)
            return task(cfg)

    return alone


def last_checkpoint(run_dir: Path) -> Path:
    """The checkpoint from which a run continues; it need not exist."""
    return run_dir / "checkpoints" / "last.ckpt"


def best_checkpoint(run_dir: Path) -> Path:
    """The checkpoint with the best monitored metric; it need not exist."""
    return run_dir / "checkpoints" / "best.ckpt"


def can_continue(run_dir: Path) -> bool:
    """Whether a run was interrupted and can continue; a run with damaged files is deleted."""
    last, best = last_checkpoint(run_dir), best_checkpoint(run_dir)
    if not last.is_file():
        return False
    try:
        training_state(last)
        if best.is_file():
            load_checkpoint(best)
        read_yaml(run_dir / "config.yaml", dict)
    except FileError:
        shutil.rmtree(run_dir)
        return False
    return True


def run_directories(folders: Sequence[Path]) -> list[Path]:
    """The run directories in a list of run and multirun directories, which hold one for each job.

    The jobs of a multirun are those that have a metrics.json, by their numbers.

    Raises:
        UserError: A folder is neither, or a run is named twice.
    """
    found: list[Path] = []
    for folder in folders:
        if (folder / "metrics.json").is_file():
            found.append(folder)
            continue
        jobs = [file.parent for file in folder.glob("*/metrics.json")]
        if not jobs:
            raise UserError(
                f"{folder} has no metrics.json; give the directory of a finished run, or of a "
                "multirun"
            )
        found += sorted(jobs, key=lambda job: (len(job.name), job.name))
    places = [run.resolve() for run in found]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise UserError(f"{found[number]} is named twice; leave one out")
    return found


def read_metrics(file: Path) -> dict[str, float]:
    """Reads the metrics.json of a run: values by name.

    Raises:
        FileError: The file is damaged, or a value is not a number.
    """
    metrics = read_json(file, dict)
    for name, value in metrics.items():
        if type(value) not in (int, float):
            raise FileError(f"{file}: {name} must be a number, not {shown(value)}; run it again")
    return metrics
