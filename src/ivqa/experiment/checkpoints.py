"""Checkpoints that survive a kill, and steps that can be repeated exactly."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from ivqa.errors import UserError
from ivqa.ranges import Seed


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint beside its target and renames it.

    Lightning's own draft lies in the system's temporary folder, from where a move to another
    disk is a copy that a kill can cut short.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None
    ) -> None:
        """Writes `checkpoint` whole or not at all."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        torch.save(checkpoint, draft)
        draft.replace(target)


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

    Raises UserError where there is none or the file is not one.
    """
    file = Path(path)
    if not file.is_file():
        raise UserError(f"there is no checkpoint {file}; pass ckpt=auto to train one")
    try:
        checkpoint = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{file} is not a readable checkpoint ({reason})") from error
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise UserError(f"{file} is not a Lightning checkpoint: it has no 'state_dict'")
    return checkpoint
