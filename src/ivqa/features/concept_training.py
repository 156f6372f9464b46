"""Training of the concept predictor: binary cross-entropy, Adam, one cycle of the learning rate."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from rich.progress import Progress
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MultilabelAveragePrecision
from typing_extensions import override

from ivqa.device import fastest_dtype
from ivqa.features.compact_cnn import CompactCNN
from ivqa.store.checkpoint_io import AtomicCheckpointIO
from ivqa.store.files import FileError
from ivqa.store.weights import load_into, training_state
from ivqa.terminal import terminal

Batch = tuple[Tensor, Tensor]
"""Pixels (B, 3, H, W) uint8, and targets (B, C) of 0 and 1."""

Labelled = tuple[NDArray[np.uint8], Tensor]
"""Pixels (M, 3, H, W) uint8, and targets (M, C) of 0 and 1, of M images."""

# Lightning and torchmetrics warn about three things that are intended: resuming, validating after
# training only, and concepts that no held-out image has.
_EXPECTED_WARNINGS = (
    ".*exists and is not empty.*",
    ".*Skipping val loop.*",
    ".*No positive samples.*",
)


class ConceptTraining(pl.LightningModule):
    """Trains a concept predictor with the binary cross-entropy of every concept.

    Logs train/loss, val/loss and val/map, the mean average precision.

    Args:
        network: The network; it is trained in place.
        learning_rate: The maximum of the learning rate.
        judged: (C,) bool, the concepts that the mean average precision covers. A concept that no
            held-out image has is left out, because its average precision is always 0.
    """

    judged: Tensor

    def __init__(self, network: CompactCNN, learning_rate: float, judged: Tensor) -> None:
        super().__init__()
        self.network = network
        self.learning_rate = learning_rate
        self.register_buffer("judged", judged)
        # Exact, because the probabilities of rare concepts would all fall into the lowest bin.
        self.precision = MultilabelAveragePrecision(network.num_concepts, average="none")

    @override
    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        pixels, targets = batch
        loss = F.binary_cross_entropy_with_logits(self._logits(pixels), targets)
        self.log("train/loss", loss, batch_size=len(pixels))
        return loss

    @override
    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        pixels, targets = batch
        logits = self._logits(pixels)
        self.log("val/loss", F.binary_cross_entropy_with_logits(logits, targets))
        self.precision.update(logits.sigmoid(), targets.int())

    @override
    def on_validation_epoch_end(self) -> None:
        self.log("val/map", self.precision.compute()[self.judged].mean())
        self.precision.reset()

    def configure_optimizers(self) -> Any:
        """Adam with one cycle of the learning rate (Smith and Topin, 2018, arXiv:1708.07120)."""
        optimizer = torch.optim.Adam(self.parameters(), lr=self.learning_rate)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            max_lr=self.learning_rate,
            total_steps=int(self.trainer.estimated_stepping_batches),
            pct_start=0.2,  # the share of the steps in which the rate rises
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def _logits(self, pixels: Tensor) -> Tensor:
        # Convolutions on a CPU are faster with the channels last.
        images = pixels.float().div(255).contiguous(memory_format=torch.channels_last)
        return self.network(images)[2]


class _Order(Callback):
    """Stores the generator of the training order in the checkpoint, for a resumed run."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.generator.set_state(state_dict["generator"])


class TrainingProgress(Callback):
    """Shows a line of progress during the training."""

    def __init__(self) -> None:
        self.description = "image features: training the concept predictor"
        self._line: Progress | None = None

    @override
    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._line = Progress(transient=True)
        self._line.add_task(
            self.description,
            total=float(trainer.estimated_stepping_batches),
            completed=trainer.global_step,
        )
        self._line.start()

    @override
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *step: Any
    ) -> None:
        if self._line is not None:
            epoch = f"epoch {trainer.current_epoch + 1} of {trainer.max_epochs}"
            self._line.update(
                self._line.task_ids[0],
                completed=trainer.global_step,
                description=f"{self.description}, {epoch}",
            )

    @override
    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._remove()

    @override
    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        if self._line is not None:
            self._line.stop()
            self._line = None


class _Images(Dataset[Batch]):
    """Reads whole batches at once: rows of the pixel array and of the targets."""

    def __init__(self, pixels: NDArray[np.uint8], targets: Tensor) -> None:
        self.pixels, self.targets = pixels, targets

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
    """Trains a concept predictor in place on pixels and targets of images.

    The training continues after the last complete epoch of FOLDER/last.ckpt if that file exists.
    An interrupted and resumed training ends with the same weights as an uninterrupted one. `seed`
    is that of the order of the images, `learning_rate` the maximum.

    Returns:
        The mean average precision on `held_out`, in [0, 1]; NaN without it.

    Raises:
        KeyboardInterrupt: The user interrupted the training.
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
        collate_fn=_unchanged,  # type: ignore[arg-type]
        generator=generator,
    )
    trainer = _trainer(folder, epochs, generator)
    last = _resumable(folder / "last.ckpt", module)
    with warnings.catch_warnings():
        for message in _EXPECTED_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        trainer.fit(module, loader, ckpt_path=last)
        if trainer.interrupted:
            raise KeyboardInterrupt
        if held_out is None:
            return float("nan")
        images = _Images(*held_out)
        loader = DataLoader(images, batch_size=256, collate_fn=_unchanged)  # type: ignore[arg-type]
        return float(trainer.validate(module, loader, verbose=False)[0]["val/map"])


def _trainer(folder: Path, epochs: int, generator: torch.Generator) -> pl.Trainer:
    """A trainer that writes FOLDER/last.ckpt after every epoch and shows one line of progress."""
    dtype = fastest_dtype("cuda" if torch.cuda.is_available() else "cpu")
    checkpoint = ModelCheckpoint(
        folder, filename="last", enable_version_counter=False, save_on_train_epoch_end=True
    )
    return pl.Trainer(
        max_epochs=epochs,
        precision="bf16-mixed" if dtype is torch.bfloat16 else "32-true",
        accelerator="auto",
        devices=1,
        logger=False,
        callbacks=[checkpoint, _Order(generator), TrainingProgress()],
        plugins=[AtomicCheckpointIO()],
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _resumable(file: Path, module: ConceptTraining) -> Path | None:
    """The checkpoint, if it exists and is whole; a message names one that is damaged."""
    if not file.is_file():
        return None
    try:
        state = training_state(file)["state_dict"]
        load_into(module, state, file, "the concept predictor")
    except FileError as error:
        terminal().print(f"{error}: the concept predictor is trained again", soft_wrap=True)
        return None
    return file


def _unchanged(batch: Batch) -> Batch:
    return batch  # `_Images` returns whole batches
