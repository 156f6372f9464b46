"""Training: a run directory with checkpoints, metrics and the configuration behind them."""

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
import wandb
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.utilities import rank_zero_only

from ivqa.data import VQADataModule
from ivqa.device import on_cpu
from ivqa.errors import UserError
from ivqa.experiment.checkpoints import AtomicCheckpointIO, load_checkpoint
from ivqa.experiment.checks import check_config, plain
from ivqa.experiment.logging import loggers_of_part
from ivqa.experiment.processes import beside
from ivqa.experiment.workbench import (
    Vocabularies,
    Workbench,
    open_workbench,
    prepare_workbench,
)
from ivqa.files import FileError, copy_file, read_json, read_yaml, write_json, write_text
from ivqa.integrity import MANIFEST, damage, seal
from ivqa.report.tables import print_metrics
from ivqa.robustness import RobustnessCallback
from ivqa.text.vocabulary import Vocabulary
from ivqa.weights import load_into, training_state

_ORIGIN = "origin.json"  # where a stored model comes from, and how long it learnt


def train(cfg: DictConfig) -> float:
    """Trains the configured model, shows its metrics and stores it; train.py calls this.

    Returns the monitored validation value, for sweepers.
    """
    check_config(cfg)
    if cfg.model.get("pretrained"):
        raise UserError(f"model={cfg.model.name} comes trained; use it with evaluate.py")
    bench = open_workbench(cfg, ["train", "val"])
    run_dir = Path(cfg.output_dir)
    if cfg.resume is not None:
        _check_unchanged(bench.cfg, run_dir)
    metrics = fit(bench, run_dir, resume=cfg.resume is not None)
    if rank_zero_only.rank:  # type: ignore[attr-defined]
        return metrics.get(cfg.model.monitor, float("nan"))  # one process speaks for all
    if not cfg.trainer.get("fast_dev_run"):
        publish(bench, run_dir, metrics)
    print_metrics(metrics, title=f"{cfg.name} on {bench.dataset.root.name}", console=bench.console)
    bench.console.print(f"run: {run_dir}", soft_wrap=True)
    return metrics.get(cfg.model.monitor, float("nan"))


def fit(bench: Workbench, run_dir: Path, *, resume: bool) -> dict[str, float]:
    """Trains in `run_dir`, or goes on there; writes config.yaml, metrics.csv and metrics.json.

    Returns the validation metrics of the best checkpoint.
    """
    cfg = OmegaConf.merge(bench.cfg, {"output_dir": str(run_dir)})
    assert isinstance(cfg, DictConfig)
    last = run_dir / "checkpoints" / "last.ckpt"
    checkpoint: dict[str, Any] = training_state(last) if resume else {"global_step": 0}
    run_dir.mkdir(parents=True, exist_ok=True)
    write_text(run_dir / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    if not resume:
        note_overrides(run_dir)

    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    module = build_module(bench, bench.vocabularies)
    if resume:
        load_into(module, checkpoint["state_dict"], last, f"model={cfg.model.name}")
    datamodule = bench.datamodule(bench.vocabularies, module)
    trainer = build_trainer(cfg, run_dir, checkpoint["global_step"])
    started = time.perf_counter()
    trainer.fit(module, datamodule=datamodule, ckpt_path=str(last) if resume else None)
    if trainer.interrupted:
        raise KeyboardInterrupt
    seconds = time.perf_counter() - started

    best = run_dir / "checkpoints" / "best.ckpt"
    if best.is_file():
        state = load_checkpoint(best)["state_dict"]
        load_into(module, state, best, f"model={cfg.model.name}")
    metrics = validate(bench, module, datamodule, "val", run_dir, cfg.trainer.limit_val_batches)
    metrics["train/epochs"] = float(trainer.current_epoch)
    metrics["train/seconds"] = seconds
    metrics["model/parameters"] = float(sum(value.numel() for value in module.parameters()))
    if trainer.is_global_zero:
        write_json(run_dir / "metrics.json", metrics)
    return metrics


def note_overrides(run_dir: Path) -> None:
    """Keeps the command line for resume=; Hydra's own note of it is overwritten by resuming."""
    overrides = OmegaConf.create(list(HydraConfig.get().overrides.task))
    write_text(run_dir / "overrides.yaml", OmegaConf.to_yaml(overrides))


def build_module(bench: Workbench, vocabularies: Vocabularies) -> Any:
    """The configured module, untrained; of words, answers and features it gets what it takes.

    model.parts are trained models that it is built of, by argument name; they are obtained first.
    """
    cfg = bench.cfg.model
    given = {**vars(vocabularies), "feature_sizes": bench.feature_sizes}
    parts = bench.parts
    with _last_beside(list(parts.values())):
        for name, part in parts.items():
            given[name] = obtain_module(part)[0]
    taken = signature(get_object(cfg.module._target_)).parameters
    build = instantiate(cfg.module, _partial_=True)
    return build(**{name: value for name, value in given.items() if name in taken})


def _last_beside(parts: Sequence[Workbench]) -> AbstractContextManager[None]:
    """Where several parts are untrained, trains the last of them while the block does the others.

    Only on a CPU: small models train hardly faster with twice the threads. The lock of the artifact
    store lets the block wait for it. When it ends, the block has its threads, so that sums may be
    rounded otherwise from then on: to repeat weights exactly, train the parts by themselves.
    """
    untrained = [part for part in parts if not _is_trained(part)]
    if len(untrained) < 2 or torch.get_num_threads() < 2:
        return nullcontext()
    last = untrained[-1]
    if not on_cpu(last.cfg.trainer.accelerator) or last.cfg.trainer.devices != 1:
        return nullcontext()
    folder = last.store_folder
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "beside.log"
    last.console.print(
        f"Training {last.cfg.model.name} at the same time, in a process of its own: {log}",
        soft_wrap=True,
    )
    return beside(_train_part, last.cfg, HydraConfig.instance().cfg, log=log)


def _train_part(cfg: DictConfig, run: DictConfig) -> None:
    """Trains what `cfg` says, in a new process; `run` is the configuration of the run."""
    HydraConfig.instance().set_config(run)
    _trained(prepare_workbench(cfg, ["train", "val"]))


def build_trainer(cfg: DictConfig, run_dir: Path, first_step: int = 0) -> pl.Trainer:
    """Lightning's Trainer with the configured callbacks and loggers."""
    loggers = [instantiate(node, first_step=first_step) for node in (cfg.logger or {}).values()]
    return instantiate(
        cfg.trainer,
        callbacks=build_callbacks(cfg),
        logger=loggers or False,
        default_root_dir=str(run_dir),
        plugins=[AtomicCheckpointIO()],
    )


def build_callbacks(cfg: DictConfig) -> list[pl.Callback]:
    """The configured callbacks; a null entry switches one off."""
    return [instantiate(node) for node in (cfg.callbacks or {}).values() if node]


def validate(
    bench: Workbench,
    module: pl.LightningModule,
    datamodule: VQADataModule,
    split: str,
    run_dir: Path,
    limit_batches: float,
) -> dict[str, float]:
    """The module's own validation metrics on a split, as "<split>/<term>", and its callbacks'.

    run_dir: where callbacks write files. limit_batches: so many batches (int), or this share of
    them (float).
    """
    callbacks = [
        callback
        for callback in build_callbacks(bench.cfg)
        if not isinstance(callback, pl.callbacks.ProgressBar | pl.callbacks.Checkpoint)
    ]
    precision = str(bench.cfg.trainer.precision)
    trainer = pl.Trainer(
        accelerator=bench.cfg.trainer.accelerator,
        devices=1,
        logger=False,
        default_root_dir=str(run_dir),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        # Mixed precision is for speed in training; the weights it leaves are float32.
        precision="32-true" if precision.endswith("-mixed") else precision,  # type: ignore[arg-type]
        limit_val_batches=1 if bench.cfg.trainer.get("fast_dev_run") else limit_batches,
    )
    pl.seed_everything(bench.cfg.seed, workers=True, verbose=False)
    (values,) = trainer.validate(module, datamodule=datamodule.evaluating(split), verbose=False)
    return {key.replace("val/", f"{split}/", 1): float(value) for key, value in values.items()}


def publish(bench: Workbench, run_dir: Path, metrics: Mapping[str, float]) -> Path:
    """Copies the best checkpoint of a run into the artifact store; returns its path there."""
    folder = bench.store_folder
    with bench.store.building(folder, bench.model_identity()):
        _keep(run_dir, folder, metrics)
    return folder / "model.ckpt"


def _keep(run_dir: Path, folder: Path, metrics: Mapping[str, float]) -> None:
    origin = {"run": str(run_dir), "seconds": metrics["train/seconds"]}
    write_json(folder / _ORIGIN, origin)
    copy_file(run_dir / "checkpoints" / "best.ckpt", folder / "model.ckpt")
    seal(folder / MANIFEST, [folder / _ORIGIN, folder / "model.ckpt"])


def training_seconds(checkpoint: Path) -> dict[str, float]:
    """train/seconds of a checkpoint in the artifact store; nothing of any other."""
    file = checkpoint.with_name(_ORIGIN)
    origin = read_json(file, dict) if file.is_file() else {}
    seconds = origin.get("seconds")
    return {"train/seconds": seconds} if isinstance(seconds, float) else {}


def obtain_module(bench: Workbench) -> tuple[Any, Vocabularies, Path]:
    """The trained module that cfg.ckpt asks for, its vocabularies and file; `auto` may train it.

    A model of another library comes trained, with its own words; of the data it gets at most the
    closed set of answers, where model.num_answers is set.
    """
    if bench.cfg.model.get("pretrained"):
        chosen = None if bench.cfg.model.num_answers is None else bench.vocabularies.answers
        none = Vocabularies(Vocabulary([]), Vocabulary([]), chosen)
        return build_module(bench, none), none, Path(bench.cfg.model.path)
    ckpt = str(bench.cfg.ckpt)
    if (released := bench.released) is not None:
        path, component, weights = released.file, released.component(), released.weights()
        shown = ", ".join(f"{name} {value:.3g}" for name, value in released.scores.items())
        bench.console.print(
            f"{bench.cfg.model.name}: released weights ({shown}); pretrained=false trains it",
            soft_wrap=True,
        )
    else:
        path = _trained(bench) if ckpt == "auto" else Path(ckpt)
        checkpoint = load_checkpoint(path)
        component, weights = checkpoint["component"], checkpoint["state_dict"]
    if component["feature_sizes"] != bench.feature_sizes:
        raise UserError(
            f"{path} was trained on the image features {component['feature_sizes']}, but this run "
            f"offers {bench.feature_sizes}; pass the features= and data= it was trained with"
        )
    vocabularies = bench.vocabularies.restored(component)
    module = build_module(bench, vocabularies)
    load_into(module, weights, path, f"model={bench.cfg.model.name}")
    return module.eval(), vocabularies, path


def _is_trained(bench: Workbench) -> bool:
    cfg = bench.cfg
    asked = cfg.ckpt == "auto" and not cfg.model.get("pretrained")
    in_store = damage(bench.store_folder / MANIFEST) is None
    return not asked or in_store or bench.released is not None


def _trained(bench: Workbench) -> Path:
    cfg = bench.cfg
    folder = bench.store_folder
    file = folder / "model.ckpt"
    with bench.store.building(folder, bench.model_identity()):
        fault = damage(folder / MANIFEST)
        if fault and file.is_file():
            bench.console.print(f"{fault}: the model is made anew.", soft_wrap=True)
        if fault:
            bench.console.print(
                f"No trained {cfg.model.name} for this data and configuration in "
                f"{bench.store.root}: training it first "
                f"(about {cfg.model.minutes:g} min on scenes with 2 cores).",
                soft_wrap=True,
            )
            run = folder / "run"
            metrics = fit(_as_part(bench), run, resume=_can_go_on(run))
            if wandb.run is not None:
                wandb.finish()  # what is trained on the way has a W&B run of its own
            _keep(run, folder, metrics)
    return file


def _can_go_on(run: Path) -> bool:
    """Whether `run` was interrupted and can go on; one whose checkpoints are damaged is deleted."""
    last, best = (run / "checkpoints" / f"{name}.ckpt" for name in ("last", "best"))
    if not last.is_file():
        return False
    try:
        training_state(last)
        if best.is_file():
            load_checkpoint(best)
        read_yaml(run / "config.yaml", dict)
    except FileError:
        shutil.rmtree(run)
        return False
    return True


def _as_part(bench: Workbench) -> Workbench:
    """The configuration of what is trained on the way to what a command asks for.

    Noise is measured on what the command asks for. W&B gets the part as a run of its own; under
    `wandb agent`, where a process has one run, that run is the command's and the part has none.
    """
    cfg = bench.cfg.copy()
    for name, node in (cfg.callbacks or {}).items():
        if node and get_object(node._target_) is RobustnessCallback:
            cfg.callbacks[name] = None
    cfg.logger = loggers_of_part(cfg.logger)
    return replace(bench, cfg=cfg)


def _check_unchanged(cfg: DictConfig, run_dir: Path) -> None:
    """A resumed run must be the one that began: only how long and where it runs may change."""
    before, now = read_yaml(run_dir / "config.yaml", dict), plain(cfg)
    free = {"resume", "output_dir", "logger", "callbacks", "num_workers", "artifacts"}
    for key, value in before.items():
        if key in free or (key == "trainer" and _same_learning(value, now.get(key))):
            continue
        if now.get(key) != value:
            raise UserError(
                f"resume={run_dir}: '{key}' was {value} when the run began and is "
                f"{now.get(key)} now; start a new run to change it"
            )


def _same_learning(before: dict[str, Any], now: dict[str, Any]) -> bool:
    longer = {"max_epochs", "max_steps", "max_time"}
    return all(now.get(key) == value for key, value in before.items() if key not in longer)
