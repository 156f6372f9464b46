"""Training of the concept predictor."""

from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint, RichProgressBar
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MultilabelAveragePrecision

from ivqa.features.compact_cnn import CompactCNN

Batch = tuple[Tensor, Tensor]


class ConceptTraining(pl.LightningModule):
    """Binary cross-entropy of every concept of an image; logs val/map, mean average precision."""

    def __init__(self, network: CompactCNN, learning_rate: float) -> None:
        super().__init__()
        self.network = network
        self.learning_rate = learning_rate
        self.precision = MultilabelAveragePrecision(network.num_concepts, thresholds=100)

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
        self.log("val/map", self.precision, prog_bar=True)

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


class _Images(Dataset[Batch]):
    """Whole batches at once: rows of the pixel array and of the targets."""

    def __init__(self, pixels: np.ndarray, targets: Tensor) -> None:
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
    train: tuple[np.ndarray, Tensor],
    val: tuple[np.ndarray, Tensor],
    folder: Path,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> float:
    """Trains `network` in place on (pixels, targets), going on from folder/last.ckpt if there.

    Returns the mean average precision on `val`.
    """
    module = ConceptTraining(network.to(memory_format=torch.channels_last), learning_rate)
    loader = DataLoader(
        _Images(*train),
        batch_size=batch_size,
        shuffle=True,
        drop_last=len(train[1]) > batch_size,
        collate_fn=_as_is,  # type: ignore[arg-type]
        generator=torch.Generator().manual_seed(seed),
    )
    held_out = DataLoader(
        _Images(*val),
        batch_size=256,
        collate_fn=_as_is,  # type: ignore[arg-type]
    )
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="auto",
        devices=1,
        logger=False,
        callbacks=[
            ModelCheckpoint(folder, filename="last", enable_version_counter=False),
            RichProgressBar(leave=False),
        ],
        check_val_every_n_epoch=max(1, epochs // 2),
        num_sanity_val_steps=0,
        enable_model_summary=False,
    )
    last = folder / "last.ckpt"
    trainer.fit(module, loader, held_out, ckpt_path=str(last) if last.is_file() else None)
    if trainer.interrupted:
        raise KeyboardInterrupt
    return float(trainer.callback_metrics.get("val/map", float("nan")))


def _as_is(batch: Batch) -> Batch:
    return batch
