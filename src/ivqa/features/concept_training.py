"""Training of the concept predictor."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from pytorch_lightning.callbacks import Callback, ModelCheckpoint, RichProgressBar
from rich.console import Console
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MultilabelAveragePrecision

from ivqa.device import fastest_dtype
from ivqa.features.compact_cnn import CompactCNN
from ivqa.files import FileError
from ivqa.weights import load_into, training_state

Batch = tuple[Tensor, Tensor]
Labelled = tuple[NDArray[np.uint8], Tensor]
"""Pixels (M, 3, H, W) uint8, and targets (M, C) of 0 and 1."""

# Warnings about what is meant: resuming, judging after training, concepts absent from `held_out`.
_EXPECTED = (".*exists and is not empty.*", ".*Skipping val loop.*", ".*No positive samples.*")


class ConceptTraining(pl.LightningModule):
    """Binary cross-entropy of every concept of an image; logs val/map, mean average precision.

    judged: (C,) bool, the concepts that the mean covers: one that no held-out image has would
    count as 0, however good the network is.
    """

    judged: Tensor

    def __init__(self, network: CompactCNN, learning_rate: float, judged: Tensor) -> None:
        super().__init__()
        self.network = network
        self.learning_rate = learning_rate
        self.register_buffer("judged", judged)
        # Exact, without bins: the probabilities of rare concepts all lie in the lowest one.
        self.precision = MultilabelAveragePrecision(network.num_concepts, average="none")

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of pixels (B, 3, H, W) uint8 and targets (B, C)."""
        pixels, targets = batch
        loss = F.binary_cross_entropy_with_logits(self._logits(pixels), targets)
        self.log("train/loss", loss, batch_size=len(pixels))
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Adds a batch to the mean average precision."""
        pixels, targets = batch
        logits = self._logits(pixels)
        self.log("val/loss", F.binary_cross_entropy_with_logits(logits, targets))
        self.precision.update(logits.sigmoid(), targets.int())

    def on_validation_epoch_end(self) -> None:
        """Logs the mean average precision."""
        self.log("val/map", self.precision.compute()[self.judged].mean())
        self.precision.reset()

    def configure_optimizers(self) -> Any:
        """Adam with one cycle of the learning rate (Smith 2018)."""
        optimizer = torch.optim.Adam(self.parameters(), lr=self.learning_rate)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            max_lr=self.learning_rate,
            total_steps=int(self.trainer.estimated_stepping_batches),
            pct_start=0.2,
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def _logits(self, pixels: Tensor) -> Tensor:
        images = pixels.float().div(255).contiguous(memory_format=torch.channels_last)
        return self.network(images)[2]


class _Order(Callback):
    """Keeps the generator of the training order in the checkpoint: a resumed run draws on."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.generator.set_state(state_dict["generator"])


class _Images(Dataset[Batch]):
    """Whole batches at once: rows of the pixel array and of the targets."""

    def __init__(self, pixels: NDArray[np.uint8], targets: Tensor) -> None:
        self.pixels, self.targets = pixels, targets

    def __getitem__(self, index: int) -> Batch:
        return torch.from_numpy(self.pixels[index].copy()), self.targets[index]

    def __getitems__(self, indices: list[int]) -> Batch:
        rows = np.asarray(indices)
        return torch.from_numpy(self.pixels[rows]), self.targets[torch.from_numpy(rows)]

    def __len__(self) -> int:
        return len(self.targets)


def train_concepts(
    network: CompactCNN,
    train: Labelled,
    held_out: Labelled | None,
    folder: Path,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> float:
    """Trains `network` in place, going on after the last whole epoch of folder/last.ckpt if there.

    Killed and resumed, it ends with the weights of an undisturbed run. Returns the mean average
    precision on `held_out`, NaN without it.
    """
    judged = torch.ones(network.num_concepts, dtype=torch.bool)
    if held_out is not None:
        judged = held_out[1].any(dim=0)
    module = ConceptTraining(network.to(memory_format=torch.channels_last), learning_rate, judged)
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(
        _Images(*train),
        batch_size=batch_size,
        shuffle=True,
        drop_last=len(train[1]) > batch_size,
        collate_fn=_as_is,  # type: ignore[arg-type]
        generator=generator,
    )
    fast = fastest_dtype("cuda" if torch.cuda.is_available() else "cpu")
    trainer = pl.Trainer(
        max_epochs=epochs,
        precision="bf16-mixed" if fast is torch.bfloat16 else "32-true",
        accelerator="auto",
        devices=1,
        logger=False,
        callbacks=[
            ModelCheckpoint(
                folder,
                filename="last",
                enable_version_counter=False,
                save_on_train_epoch_end=True,
            ),
            _Order(generator),
            RichProgressBar(leave=False),
        ],
        enable_model_summary=False,
    )
    last = _resumable(folder / "last.ckpt", module)
    with warnings.catch_warnings():
        for message in _EXPECTED:
            warnings.filterwarnings("ignore", message=message)
        trainer.fit(module, loader, ckpt_path=last)
        if trainer.interrupted:
            raise KeyboardInterrupt
        if held_out is None:
            return float("nan")
        judge = DataLoader(
            _Images(*held_out),
            batch_size=256,
            collate_fn=_as_is,  # type: ignore[arg-type]
        )
        return float(trainer.validate(module, judge, verbose=False)[0]["val/map"])


def _resumable(file: Path, module: ConceptTraining) -> Path | None:
    """`file` where training can go on from it; a damaged one is named and left aside."""
    if not file.is_file():
        return None
    try:
        state = training_state(file)["state_dict"]
        load_into(module, state, file, "the concept predictor")
    except FileError as error:
        Console().print(f"{error}: the concept predictor is trained anew", soft_wrap=True)
        return None
    return file


def _as_is(batch: Batch) -> Batch:
    return batch
