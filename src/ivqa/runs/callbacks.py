"""Builds the configured callbacks, and shows the progress of a training."""

import math
import time
from collections.abc import Mapping
from datetime import timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig
from pytorch_lightning.callbacks import RichProgressBar
from typing_extensions import override

from ivqa.data import VQADataModule
from ivqa.terminal import terminal
from ivqa.vqa import MeasuringCallback

_SECONDS = 60  # between two lines of a training
_FIRST = 5  # seconds before an epoch ends with the first line; shorter trainings need none


class TrainingProgress(RichProgressBar):
    """Rich's bar in a terminal or notebook; elsewhere a line after an epoch, then one a minute.

    Args:
        name: The name of the model.
        **options: Arguments of RichProgressBar.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(**options)
        self.name = name
        self._has_lines = False

    @override
    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)  # disables the bar except in the first process
        console = terminal()
        if self.is_enabled and not (console.is_terminal or console.is_jupyter):
            self.disable()
            self._has_lines = True

    @override
    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self._began = self._said = time.monotonic()
        self._steps = 0  # since then: a resumed training has done others before
        self._is_first = True

    @override
    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
        now, steps = time.monotonic(), trainer.num_training_batches
        self._steps += 1
        ends_first = self._is_first and batch_idx + 1 >= steps
        is_due = now - self._said >= (_FIRST if ends_first else _SECONDS)
        if self._has_lines and is_due:
            self._said, self._is_first = now, False
            # With a limit of steps the training may end in any epoch.
            epochs = trainer.max_epochs if trainer.max_steps < 0 else None
            epoch, step = (trainer.current_epoch + 1, epochs or -1), (batch_idx + 1, steps)
            line = progress_line(epoch, step, now - self._began, self._steps)
            terminal().print(f"{self.name}: {line}", soft_wrap=True, highlight=False)


def progress_line(
    epoch: tuple[int, int], step: tuple[int, float], seconds: float, timed: int
) -> str:
    """How far a training is, and the time that is left at its speed so far.

    Args:
        epoch: The present epoch, from 1, and their number; -1 where it is not limited.
        step: The steps done in this epoch, and their number, which may be infinite.
        seconds: The time so far.
        timed: The steps in this time; resume= has done others before.

    >>> progress_line((2, 4), (50, 100), 90, timed=150)
    'epoch 2 of 4, step 50 of 100; 0:01:30 so far, about 0:02:30 left'
    """
    line = f"epoch {epoch[0]}" + (f" of {epoch[1]}" if epoch[1] > 0 else "")
    line += f", step {step[0]}" + (f" of {step[1]}" if math.isfinite(step[1]) else "")
    line += f"; {timedelta(seconds=round(seconds))} so far"
    if epoch[1] < 0 or not math.isfinite(step[1]):
        return line
    steps_left = (epoch[1] - epoch[0] + 1) * step[1] - step[0]
    return f"{line}, about {timedelta(seconds=round(seconds / timed * steps_left))} left"


def build_callback(node: DictConfig, measuring_models: Mapping[str, Any]) -> Any:
    """Builds a callback with those of the trained models that its constructor declares by name."""
    taken = signature(get_object(node._target_)).parameters
    return instantiate(
        node, **{name: one for name, one in measuring_models.items() if name in taken}
    )


def build_callbacks(cfg: DictConfig, measuring_models: Mapping[str, Any]) -> list[pl.Callback]:
    """Builds the configured callbacks in their order; a null entry switches one off."""
    return [
        build_callback(node, measuring_models) for node in (cfg.callbacks or {}).values() if node
    ]


def measured(
    cfg: DictConfig,
    measuring_models: Mapping[str, Any],
    module: Any,
    datamodule: VQADataModule,
    split: str,
    run_dir: Path,
) -> dict[str, float]:
    """Runs the configured measurements outside of a Trainer: noise, beliefs.

    `module` is a VQA model, which need not be a LightningModule; `split` a stage or a name.

    Returns:
        The figures by name; empty without such a callback.
    """
    metrics: dict[str, float] = {}
    for callback in build_callbacks(cfg, measuring_models):
        if isinstance(callback, MeasuringCallback):
            metrics |= callback.metrics(module, datamodule, split, run_dir)
    return applicable(metrics)


def applicable(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics without those that do not apply, which are NaN."""
    return {name: float(value) for name, value in metrics.items() if not math.isnan(value)}
