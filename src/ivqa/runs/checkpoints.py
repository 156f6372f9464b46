"""Checkpoints from which training continues exactly where it stopped."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn
from typing_extensions import override

from ivqa.errors import UserError
from ivqa.ranges import Count, Seed
from ivqa.store.files import FileError
from ivqa.store.weights import load_into, read_weights, state_dict_of, training_state


class LastCheckpoint(pl.callbacks.Checkpoint):
    """Writes last.ckpt, from which `resume=` continues, after each epoch and every N steps.

    Where a validation follows a step, the checkpoint waits for it, because a run that continues
    from the step does not repeat the validation. Lightning's ModelCheckpoint would write at once.

    Args:
        every_n_train_steps: N, for long epochs; None writes after epochs only.
    """

    def __init__(self, dirpath: str | Path, every_n_train_steps: Count | None = None) -> None:
        self.path = Path(dirpath) / "last.ckpt"
        self.every_n_train_steps = every_n_train_steps
        self._saved_step = 0

    @override
    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        interval = trainer.val_check_batch
        counts_epochs = trainer.check_val_every_n_epoch is not None
        done = (batch_idx if counts_epochs else trainer.fit_loop.total_batch_idx) + 1
        if interval is None or done % interval:
            self._save_on_step(trainer)

    @override
    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn == "fit" and not trainer.is_last_batch:
            self._save_on_step(trainer)

    @override
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._save(trainer)

    def _save_on_step(self, trainer: pl.Trainer) -> None:
        # With accumulated gradients several batches have one step; only its first checkpoint holds
        # no half of a sum.
        step, steps = trainer.global_step, self.every_n_train_steps
        if steps is not None and step % steps == 0 and step > self._saved_step:
            self._save(trainer)

    def _save(self, trainer: pl.Trainer) -> None:
        if not getattr(trainer, "fast_dev_run", False):  # set outside of Trainer's class
            self._saved_step = trainer.global_step
            trainer.save_checkpoint(self.path)


class StepSeed(pl.Callback):
    """Seeds torch before every training step with a function of (seed, step, batch, rank).

    A resumed run then repeats dropout and sampling exactly, wherever it was interrupted, although
    no checkpoint stores the state of a random generator.
    """

    def __init__(self, seed: Seed) -> None:
        self.seed = seed

    @override
    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        # Accumulated gradients have several batches a step.
        words = (self.seed, trainer.global_step, batch_idx, trainer.global_rank)
        mixed = np.random.SeedSequence(words).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(mixed))


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Reads a checkpoint of a trained module to the CPU: "state_dict", "component" and others.

    The file may hold only tensors and plain containers; no pickled code is run.

    Raises:
        UserError: The file does not exist.
        FileError: The file is not a checkpoint, its weights are not finite, or it does not
            describe the module's words, answers and features.
    """
    file = Path(path)
    if not os.path.lexists(file):
        raise UserError(f"there is no checkpoint {file}; pass ckpt=auto to train one")
    checkpoint = read_weights(file, "a Lightning checkpoint")
    state_dict_of(checkpoint, file)
    check_component(checkpoint.get("component"), file)
    return checkpoint


def restore_training(module: nn.Module, path: Path, what: str) -> int:
    """Loads the weights of a checkpoint from which training continues, and returns its step.

    Raises:
        FileError: The file is damaged, training cannot continue from it, or its weights are those
            of another module than `what`.
    """
    checkpoint = training_state(path)
    load_into(module, checkpoint["state_dict"], path, what)
    return checkpoint["global_step"]


def check_best(last: Path, best: Path) -> None:
    """Raises FileError where a resumed run has lost its best checkpoint, with which it compares."""
    states = training_state(last)["callbacks"].values()
    if not any(Path(state.get("best_model_path", "")).name == best.name for state in states):
        return
    if not best.is_file():
        raise FileError(
            f"{best} is missing, the best checkpoint of the run so far; restore it, or start the "
            "run again without resume="
        )
    load_checkpoint(best)


def check_component(component: Any, path: Path) -> None:
    """Raises FileError unless a checkpoint has words, answers and feature sizes of its module."""
    if component is None:
        raise FileError(f"{path} was not written by ivqa: it names no component")
    texts = ("question_words", "answer_words", "answers")
    has_sizes = isinstance(component, dict) and isinstance(component.get("feature_sizes"), dict)
    if not has_sizes or not all(_are_distinct_texts(component.get(name, [])) for name in texts):
        raise FileError(
            f"{path} does not say which words and features it was trained with; restore the "
            "checkpoint that train.py wrote"
        )


def _are_distinct_texts(value: Any) -> bool:
    are_texts = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return are_texts and len(set(value)) == len(value)
