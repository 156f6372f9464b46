"""Checkpoints that survive a kill, and steps that can be repeated exactly."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from ivqa.errors import UserError
from ivqa.files import FileError, written
from ivqa.ranges import Seed
from ivqa.weights import read_weights, state_dict_of


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside its target and renames it.

    Lightning's own draft lies in the system's temporary folder, from where a move to another
    disk is a copy that a kill can cut short.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Writes `checkpoint` whole or not at all."""
        with written(Path(path)) as draft:
            torch.save(checkpoint, draft)


class StepSeed(pl.Callback):
    """Makes the randomness of a training step a function of (seed, step, rank) alone.

    A resumed run then repeats dropout and sampling exactly, wherever it was stopped, without the
    state of any generator having been saved.
    """

    def __init__(self, seed: Seed) -> None:
        self.seed = seed

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Seeds torch for this step, and for this batch where several are accumulated in one."""
        words = (self.seed, trainer.global_step, batch_idx, trainer.global_rank)
        mixed = np.random.SeedSequence(words).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(mixed))


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """The checkpoint at `path`, on the CPU; tensors and plain containers only.

    Raises UserError where there is none, and FileError where the file is not one, its
    weights are not finite, or it does not say what it was trained with.
    """
    file = Path(path)
    if not os.path.lexists(file):
        raise UserError(f"there is no checkpoint {file}; pass ckpt=auto to train one")
    checkpoint = read_weights(file, "a Lightning checkpoint")
    state_dict_of(checkpoint, file)
    check_component(checkpoint.get("component"), file)
    return checkpoint


def check_component(component: Any, path: Path) -> None:
    """Raises FileError where a checkpoint does not say its words, answers and feature sizes."""
    if component is None:
        raise FileError(f"{path} was not written by ivqa: it names no component")
    texts = ("question_words", "answer_words", "answers")
    known = isinstance(component, dict) and isinstance(component.get("feature_sizes"), dict)
    if not known or not all(_are_texts(component.get(name, [])) for name in texts):
        raise FileError(
            f"{path} does not say which words and features it was trained with; restore the "
            "checkpoint that train.py wrote"
        )


def _are_texts(value: Any) -> bool:
    known = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return known and len(set(value)) == len(value)
