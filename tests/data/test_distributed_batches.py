"""Two processes share the rows under Lightning's DDP strategy (gloo, CPU)."""

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from ivqa.data.batches.batch_settings import BatchSettings
from ivqa.data.batches.datamodule import VQADataModule, build_vocabularies
from ivqa.data.dataset import VQADataset


class RowsToFile(pl.LightningModule):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def _note(self, stage: str, batch: Any) -> None:
        with open(self.folder / f"{stage}_{self.global_rank}.txt", "a") as file:
            file.write("".join(f"{row}\n" for row in batch.rows.tolist()))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        self._note("train", batch)
        return self.weight * len(batch)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._note("val", batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.slow
def test_every_row_is_read_by_one_process(roots: Any, tmp_path: Path):
    dataset = VQADataset(roots.example(21))
    words = build_vocabularies(dataset.split("train"))
    data = VQADataModule(
        dataset, None, *words, batching=BatchSettings(batch_size=4, eval_batch_size=5)
    )
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp_spawn",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(RowsToFile(tmp_path), datamodule=data)
    rows = {
        (stage, rank): list(map(int, (tmp_path / f"{stage}_{rank}.txt").read_text().split()))
        for stage in ("train", "val")
        for rank in (0, 1)
    }
    assert sorted(rows["val", 0] + rows["val", 1]) == list(range(21))
    assert len(rows["train", 0]) == len(rows["train", 1]) == 11
    assert set(rows["train", 0]) | set(rows["train", 1]) == set(range(21))
