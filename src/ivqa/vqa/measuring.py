"""A Lightning callback that measures a VQA model in training, validation and test."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from typing_extensions import override

from ivqa.data import VQADataModule
from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.vqa.protocol import Answerer


class MeasuringCallback(pl.Callback):
    """Measures a VQA model at the end of Trainer.validate and Trainer.test, and logs the figures.

    In training, it measures after every `every_n_epochs` epochs, never if that is 0. The trainer
    needs a `VQADataModule`. The callback ignores a module that does not answer questions, such as a
    generator.
    """

    def __init__(self, every_n_epochs: int = 0) -> None:
        self.every_n_epochs = every_n_epochs

    @abstractmethod
    def metrics(
        self,
        answerer: Answerer,
        datamodule: VQADataModule,
        stage: str,
        run_dir: Path | None = None,
    ) -> dict[str, float]:
        """Measures a model on a split, the name or stage of which is `stage`.

        Files are written to `run_dir`, unless it is None.
        """

    @override
    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # The sanity check runs a few batches through an untrained model.
        if trainer.sanity_checking:
            return
        if trainer.state.fn == "fit":
            # current_epoch counts from 0.
            epoch = trainer.current_epoch + 1
            if not self.every_n_epochs or epoch % self.every_n_epochs:
                return
        self._log(trainer, pl_module, "val")

    @override
    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._log(trainer, pl_module, "test")

    def _log(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if not hasattr(pl_module, "answer"):  # a generator
            return
        datamodule: Any = trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(datamodule, VQADataModule):
            raise UserError(f"{type(self).__name__} needs a trainer with a VQADataModule")
        stage = datamodule.evaluated or stage
        run_dir = Path(trainer.default_root_dir) if trainer.is_global_zero else None
        answerer: Any = pl_module
        pl_module.log_dict(self.metrics(answerer, datamodule, stage, run_dir))


def images_for(
    readers: Sequence[Any], datamodule: VQADataModule, stage: str, image_ids: Sequence[int]
) -> ImageBatch:
    """Images of a split with the features of the datamodule's model and those of other models.

    Args:
        readers: The other models, which may have `feature_sizes`.
        datamodule: Has the images.
        stage: The name or stage of the split.
        image_ids: Ids of the images, (B,), with repeats.

    Raises:
        UserError: The data lack an image feature that a model reads.
    """
    images = datamodule.images_of(stage, image_ids)
    names = (name for one in readers for name in getattr(one, "feature_sizes", ()))
    wanted = [name for name in dict.fromkeys(names) if getattr(images, name) is None]
    if not wanted:
        return images
    store = datamodule.features
    offered = store.sizes if store is not None else {}
    if absent := [name for name in wanted if name not in offered]:
        raise UserError(
            f"a model of the measurement reads the image feature '{absent[0]}', which the data "
            "module does not have; give it features with this one, or choose another model"
        )
    assert store is not None
    rows = store.rows(datamodule.dataset.name_of(stage), images.ids.numpy())
    gathered: Any = store.gather(datamodule.dataset.name_of(stage), rows, wanted)
    return replace(images, **gathered)
