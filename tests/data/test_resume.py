"""Interrupted training resumes with exactly the samples that it has not finished."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, Checkpoint, ModelCheckpoint

from ivqa.data.batches.batch_settings import BatchSettings
from ivqa.data.batches.datamodule import VQADataModule, build_vocabularies
from ivqa.data.dataset import VQADataset
from ivqa.data.loading import OrderedBatches, ShuffledBatches
from ivqa.runs.checkpoints import LastCheckpoint

Seen = list[tuple[int, list[int]]]


class Recorder(pl.LightningModule):
    """Records the rows of every batch whose training step is finished."""

    def __init__(self, interrupt_at: int | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: Seen = []
        self.validated: list[int] = []  # the steps before each validation
        self.interrupt_at = interrupt_at

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if self.global_step == self.interrupt_at:
            raise RuntimeError("interrupted")
        self.seen.append((self.current_epoch, batch.rows.tolist()))
        return self.weight * float(batch.rows.sum())

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val/rows", float(len(batch)), batch_size=len(batch))

    def on_validation_epoch_end(self) -> None:
        self.validated.append(self.global_step)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        # As a learning rate schedule does; Lightning builds the loader for it, before the state.
        assert self.trainer.estimated_stepping_batches > 0
        return torch.optim.SGD(self.parameters(), lr=1e-3)


class KeptCheckpoints(LastCheckpoint):
    """Keeps a copy of each checkpoint, and the validations before it, by step."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.validated: dict[int, list[int]] = {}

    def _save(self, trainer: pl.Trainer) -> None:
        super()._save(trainer)
        self.validated[trainer.global_step] = list(trainer.lightning_module.validated)
        shutil.copy(self.path, self.path.with_name(f"{trainer.global_step}.ckpt"))


class SaveOnException(Callback):
    def __init__(self, path: Path) -> None:
        self.path = path

    def on_exception(self, trainer: pl.Trainer, pl_module: Any, exception: Any) -> None:
        trainer.save_checkpoint(self.path)


def data_of(root: Path, num_workers: int) -> VQADataModule:
    dataset = VQADataset(root)
    words = build_vocabularies(dataset.split("train"))
    batching = BatchSettings(batch_size=4, seed=5, num_workers=num_workers)
    return VQADataModule(dataset, None, *words, batching=batching)


def trainer_of(folder: Path, *callbacks: Callback, **kwargs: Any) -> pl.Trainer:
    return pl.Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        devices=1,
        max_epochs=3,
        callbacks=list(callbacks),
        enable_checkpointing=any(isinstance(item, Checkpoint) for item in callbacks),
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        **kwargs,
    )


def run(folder: Path, root: Path, workers: int, *callbacks: Callback, **kwargs: Any) -> Recorder:
    ckpt_path, at = kwargs.pop("ckpt_path", None), kwargs.pop("interrupt_at", None)
    model = Recorder(at)
    trainer = trainer_of(folder, *callbacks, **kwargs)
    try:
        trainer.fit(model, datamodule=data_of(root, workers), ckpt_path=ckpt_path)
    except RuntimeError as error:
        if str(error) != "interrupted":
            raise
    return model


# An epoch has 5 batches: training stops in its middle, at its end, and after its first step.
@pytest.mark.parametrize(
    ("steps", "workers"), [(1, 0), (3, 0), (5, 0), (6, 0), (10, 0), (12, 0), (5, 2), (8, 2)]
)
def test_training_stopped_after_a_step_resumes_exactly(
    roots: Any, tmp_path: Path, steps: int, workers: int
):
    root = roots.example(18)
    whole = run(tmp_path, root, workers)
    saver = ModelCheckpoint(
        tmp_path,
        filename="{step}",
        every_n_train_steps=1,
        save_top_k=-1,
        auto_insert_metric_name=False,
    )
    run(tmp_path, root, workers, saver, max_steps=steps)
    resumed = run(tmp_path, root, workers, ckpt_path=str(tmp_path / f"{steps}.ckpt"))
    assert resumed.seen == whole.seen[steps:]
    assert torch.equal(resumed.weight, whole.weight)


@pytest.mark.parametrize(("step", "workers"), [(2, 0), (4, 0), (5, 0), (9, 0), (5, 2), (7, 2)])
def test_an_interrupted_step_is_repeated(roots: Any, tmp_path: Path, step: int, workers: int):
    root = roots.example(18)
    whole = run(tmp_path, root, workers)
    path = tmp_path / "exception.ckpt"
    first = run(tmp_path, root, workers, SaveOnException(path), interrupt_at=step)
    resumed = run(tmp_path, root, workers, ckpt_path=str(path))
    assert first.seen + resumed.seen == whole.seen


@pytest.mark.parametrize("kwargs", [{"val_check_interval": 2}, {}, {"limit_train_batches": 3}])
def test_training_resumes_from_every_checkpoint_of_validation(
    roots: Any, tmp_path: Path, kwargs: dict[str, Any]
):
    root = roots.example(18)
    whole = run(tmp_path, root, 0, **kwargs)
    saver = ModelCheckpoint(
        tmp_path / "val",
        filename="{step}",
        save_top_k=-1,
        monitor="val/rows",
        auto_insert_metric_name=False,
    )
    run(tmp_path, root, 0, saver, **kwargs)
    checkpoints = sorted((tmp_path / "val").glob("*.ckpt"))
    assert len(checkpoints) >= 3
    for path in checkpoints:
        resumed = run(tmp_path, root, 0, ckpt_path=str(path), **kwargs)
        assert resumed.seen == whole.seen[int(path.stem) :], path.name


@pytest.mark.parametrize("workers", [0, 2])
def test_loading_does_not_use_the_global_generator(roots: Any, workers: int):
    loader = data_of(roots.example(9), workers).train_dataloader()
    before = torch.get_rng_state()
    list(loader)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_epoch_has_an_order_of_all_rows_that_depends_on_seed_and_epoch():
    rows = np.arange(10, 33)
    epochs = []
    for epoch in range(3):
        batches = ShuffledBatches(rows, 5, seed=1)
        batches.set_epoch(epoch)
        epochs.append(np.concatenate(list(batches)).tolist())
        assert sorted(epochs[-1]) == rows.tolist()
        assert len(batches) == 5
    assert epochs[0] != epochs[1] != epochs[2]
    other_seed = ShuffledBatches(rows, 5, seed=2)
    assert np.concatenate(list(other_seed)).tolist() != epochs[1]  # seed and epoch are not added


@pytest.mark.parametrize("replicas", [2, 3])
def test_several_processes_follow_the_order_of_one_process(replicas: int):
    rows = np.arange(24)
    whole = np.concatenate(list(ShuffledBatches(rows, 24, seed=3)))
    shares = [
        np.concatenate(list(ShuffledBatches(rows, 4, 3, replicas, rank)))
        for rank in range(replicas)
    ]
    assert np.stack(shares, axis=1).ravel().tolist() == whole.tolist()


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_window_puts_questions_of_similar_length_into_a_batch(replicas: int):
    rows = np.random.default_rng(0).permutation(203)
    lengths = np.random.default_rng(1).integers(3, 20, 203)

    def epoch(window: int, start: int = 0) -> list[list[np.ndarray]]:
        shares = []
        for rank in range(replicas):
            batches = ShuffledBatches(rows, 10, 3, replicas, rank, lengths=lengths, window=window)
            batches.resume(0, start)
            shares.append(list(batches))
        return shares

    def padding(shares: list[list[np.ndarray]]) -> int:
        return sum(
            int((lengths[batch].max() - lengths[batch]).sum())
            for share in shares
            for batch in share
        )

    near = epoch(5)
    assert set(np.concatenate([np.concatenate(share) for share in near])) == set(rows)
    assert padding(near) < 0.5 * padding(epoch(1))
    # Batches are not sorted by length.
    longest = [int(lengths[batch].max()) for batch in epoch(100)[0]]
    assert longest != sorted(longest)
    # A restart skips exactly the finished batches.
    for whole, remaining in zip(near, epoch(5, start=4), strict=True):
        assert [batch.tolist() for batch in remaining] == [batch.tolist() for batch in whole[4:]]


@pytest.mark.parametrize("num_rows", [1, 7, 24, 25])
@pytest.mark.parametrize("replicas", [2, 3])
def test_all_processes_take_the_same_number_of_training_steps(num_rows: int, replicas: int):
    shares = [
        [len(batch) for batch in ShuffledBatches(np.arange(num_rows), 4, 0, replicas, rank)]
        for rank in range(replicas)
    ]
    assert all(share == shares[0] for share in shares)


@pytest.mark.parametrize("num_rows", [3, 7, 24, 25])
@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_evaluation_reads_every_row_once_with_the_same_number_of_batches(
    num_rows: int, replicas: int, batch_size: int
):
    shares = [
        [b.tolist() for b in OrderedBatches(num_rows, batch_size, replicas, rank)]
        for rank in range(replicas)
    ]
    assert sorted(row for share in shares for batch in share for row in batch) == list(
        range(num_rows)
    )
    lengths = {len(share) for share in shares}
    assert lengths == {len(OrderedBatches(num_rows, batch_size, replicas, 0))}
    assert all(batch for share in shares for batch in share)


def test_questions_of_an_image_follow_each_other_in_a_random_order_of_the_images():
    rows = np.random.default_rng(0).permutation(np.arange(10, 70))
    groups = np.arange(80) % 12  # rows of an image are not neighbours in the split

    def epoch(number: int, start: int = 0) -> list[np.ndarray]:
        batches = ShuffledBatches(rows, 7, seed=1, groups=groups)
        batches.resume(number, start)
        return list(batches)

    orders = []
    for number in range(3):
        order = np.concatenate(epoch(number))
        assert sorted(order) == sorted(rows)
        images = groups[order]
        assert (images[1:] != images[:-1]).sum() == 11  # 12 images, each in one piece
        orders.append(images.tolist())
        resumed = [batch.tolist() for batch in epoch(number, start=3)]
        assert resumed == [batch.tolist() for batch in epoch(number)[3:]]
    assert orders[0] != orders[1] != orders[2]


# An epoch has 5 batches: a checkpoint is due on its last step, in its middle, or never within it.
@pytest.mark.parametrize(
    ("every", "kwargs", "steps"),
    [
        (None, {}, [5, 10, 15]),
        (5, {}, [5, 10, 15]),
        (3, {}, [3, 5, 6, 9, 10, 12, 15]),
        (2, {"val_check_interval": 2}, [2, 4, 5, 6, 8, 10, 12, 14, 15]),
        (
            *(3, {"val_check_interval": 3, "check_val_every_n_epoch": None}),
            [3, 5, 6, 9, 10, 12, 15],
        ),
        (2, {"accumulate_grad_batches": 2}, [2, 3, 4, 6, 8, 9]),
        (2, {"limit_train_batches": 4}, [2, 4, 6, 8, 10, 12]),
    ],
)
def test_the_last_checkpoint_comes_after_the_validation_of_its_step(
    roots: Any, tmp_path: Path, every: int | None, kwargs: dict[str, Any], steps: list[int]
):
    root = roots.example(18)
    saver = KeptCheckpoints(tmp_path / "last", every)
    whole = run(tmp_path, root, 0, saver, **kwargs)
    checkpoints = {int(path.stem): path for path in (tmp_path / "last").glob("[0-9]*.ckpt")}
    assert sorted(checkpoints) == steps
    for step, path in checkpoints.items():
        resumed = run(tmp_path, root, 0, ckpt_path=str(path), **kwargs)
        # Every validation up to the step lies before the checkpoint, every later one behind it.
        assert saver.validated[step] == [done for done in whole.validated if done <= step], step
        assert resumed.validated == [done for done in whole.validated if done > step], step
        assert torch.equal(resumed.weight, whole.weight)
