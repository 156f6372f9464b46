"""The line of progress of the image features: what is being read, trained or computed."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback
from rich.progress import Progress, track
from typing_extensions import override

Item = TypeVar("Item")


def tracked(items: Iterable[Item], activity: str) -> Iterator[Item]:
    """Shows a line of progress while items are consumed, and removes it at the end.

    `activity` says what is being done, such as "reading 500 images".
    """
    yield from track(items, description=f"image features: {activity}", transient=True)


class TrainingProgress(Callback):
    """Shows a line of progress, such as "training the concept predictor", during a training."""

    def __init__(self, activity: str) -> None:
        self.description = f"image features: {activity}"
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
