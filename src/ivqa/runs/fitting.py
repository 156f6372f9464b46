"""Fitting: a module trained by Lightning in a run directory, and its validation metrics."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.callbacks import Timer
from pytorch_lightning.plugins.environments import LightningEnvironment
from torch import distributed

from ivqa.data import VQADataModule
from ivqa.runs.callbacks import applicable, build_callbacks
from ivqa.runs.checkpoints import check_best, load_checkpoint, restore_training
from ivqa.runs.loggers import RunCSVLogger, build_loggers, forget_runs, give_results
from ivqa.runs.run_directory import begin_run, best_checkpoint, last_checkpoint
from ivqa.store.checkpoint_io import AtomicCheckpointIO
from ivqa.store.files import write_json
from ivqa.store.weights import load_into


def fit(
    cfg: DictConfig,
    module: Any,
    datamodule: VQADataModule,
    run_dir: Path,
    *,
    resume: bool,
    measuring_models: Mapping[str, Any],
) -> dict[str, float]:
    """Trains `module` in `run_dir`, or continues there from checkpoints/last.ckpt.

    Writes config.yaml, metrics.csv, metrics.json and checkpoints/ into the run directory. The
    module ends with the weights of the best checkpoint. Callbacks use `measuring_models`.

    Returns:
        The validation metrics of the best checkpoint, with train/epochs, train/seconds and
        model/parameters; nothing in the other processes of a training by several.
    """
    # A part is trained in the artifact store, so its callbacks need this directory.
    cfg = cfg.copy()
    cfg.output_dir = str(run_dir)
    last, best = last_checkpoint(run_dir), best_checkpoint(run_dir)
    first_step = 0
    if resume:
        check_best(last, best)
        first_step = restore_training(module, last, f"model={cfg.model.name}")
    else:  # of an earlier run in this directory, which resume= must not continue
        for file in (last, best, run_dir / "metrics.json"):
            file.unlink(missing_ok=True)
        forget_runs(run_dir)
    begin_run(cfg, run_dir, resume=resume)
    timer = Timer(verbose=False)  # a resumed training counts the seconds before it too
    trainer = build_trainer(cfg, run_dir, measuring_models, first_step, timer)
    trainer.fit(module, datamodule=datamodule, ckpt_path=str(last) if resume else None)
    if trainer.interrupted:
        raise KeyboardInterrupt  # Lightning catches it, but the run is not complete
    seconds = timer.time_elapsed()
    if _left_group():
        return {}

    limit = cfg.trainer.limit_val_batches
    if best.is_file():  # a fast dev run writes none
        load_into(module, load_checkpoint(best)["state_dict"], best, f"model={cfg.model.name}")
    metrics = validate(
        cfg, module, datamodule, "val", run_dir, limit, measuring_models=measuring_models
    )
    metrics["train/epochs"] = float(trainer.current_epoch)
    metrics["train/seconds"] = seconds
    metrics["model/parameters"] = float(sum(value.numel() for value in module.parameters()))
    write_json(run_dir / "metrics.json", metrics)
    give_results(trainer.loggers, metrics, trainer.global_step)
    return metrics


def _left_group() -> bool:
    """Ends a training by several processes; returns whether this one has nothing more to do.

    The first process then validates like the only process of a run, with the same metrics.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return False
    rank = distributed.get_rank()
    distributed.barrier()
    distributed.destroy_process_group()
    return rank > 0


def build_trainer(
    cfg: DictConfig,
    run_dir: Path,
    measuring_models: Mapping[str, Any],
    first_step: int = 0,
    *further: pl.Callback,
) -> pl.Trainer:
    """Lightning's Trainer with the configured callbacks and loggers; checkpoints are atomic.

    A resumed run continues from `first_step`; metrics.csv keeps the rows before it.
    """
    loggers = build_loggers(cfg)
    for logger in loggers:
        if isinstance(logger, RunCSVLogger):
            logger.first_step = first_step
    return instantiate(
        cfg.trainer,
        callbacks=[*build_callbacks(cfg, measuring_models), *further],
        logger=loggers or False,
        default_root_dir=str(run_dir),
        plugins=[AtomicCheckpointIO()],
    )


def validate(
    cfg: DictConfig,
    module: pl.LightningModule,
    datamodule: VQADataModule,
    split: str,
    run_dir: Path,
    limit_batches: float,
    *,
    measuring_models: Mapping[str, Any],
) -> dict[str, float]:
    """Validates a module on a split (a stage or a name).

    The configured callbacks run too, except progress bars and checkpoints. `limit_batches` is a
    number of batches (int), or a share of all batches (float).

    Returns:
        The metrics that the module and the callbacks log, as "<split>/<term>", without those that
        do not apply (NaN).
    """
    callbacks = [
        callback
        for callback in build_callbacks(cfg, measuring_models)
        if not isinstance(callback, pl.callbacks.ProgressBar | pl.callbacks.Checkpoint)
    ]
    precision = str(cfg.trainer.precision)
    trainer = pl.Trainer(
        accelerator=cfg.trainer.accelerator,
        devices=1,
        logger=False,
        default_root_dir=str(run_dir),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        # Mixed precision only speeds up training; the trained weights are float32.
        precision="32-true" if precision.endswith("-mixed") else precision,  # type: ignore[arg-type]
        limit_val_batches=1 if cfg.trainer.get("fast_dev_run") else limit_batches,
        plugins=[LightningEnvironment()],  # one process, also under torchrun and Slurm
    )
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    (values,) = trainer.validate(module, datamodule=datamodule.evaluating(split), verbose=False)
    return applicable({key.replace("val/", f"{split}/", 1): x for key, x in values.items()})
