"""The progress of a training in a log: a line a minute, with the time that is left."""

from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ivqa.runs.callbacks import TrainingProgress


class Module(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch: Tensor) -> Tensor:
        return self.layer(batch).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def _train(progress: TrainingProgress, **limits: int) -> None:
    """Three epochs of four steps."""
    options: dict[str, Any] = {"max_epochs": 3, **limits}
    trainer = pl.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_model_summary=False,
        callbacks=[progress], **options,
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(torch.ones(4, 1)))  # type: ignore[arg-type]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """What is printed by a training whose steps take some seconds each."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def train(seconds: int, **limits: int) -> list[str]:
        clock = count(0, seconds)
        times = SimpleNamespace(monotonic=lambda: next(clock))
        monkeypatch.setattr("ivqa.runs.callbacks.time", times)
        _train(TrainingProgress("mlb", leave=False), **limits)
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("mlb: ")]

    return train


def test_a_log_has_a_line_a_minute(shown: Any) -> None:
    assert shown(20) == [
        "mlb: epoch 1 of 3, step 3 of 4; 0:01:00 so far, about 0:03:00 left",
        "mlb: epoch 2 of 3, step 2 of 4; 0:02:00 so far, about 0:02:00 left",
        "mlb: epoch 3 of 3, step 1 of 4; 0:03:00 so far, about 0:01:00 left",
        "mlb: epoch 3 of 3, step 4 of 4; 0:04:00 so far, about 0:00:00 left",
    ]


def test_a_short_training_says_after_an_epoch_how_long_it_takes(shown: Any) -> None:
    assert shown(2) == ["mlb: epoch 1 of 3, step 4 of 4; 0:00:08 so far, about 0:00:16 left"]
    assert shown(0) == []


def test_without_a_number_of_epochs_no_time_is_left(shown: Any) -> None:
    assert shown(30, max_epochs=-1, max_steps=3) == ["mlb: epoch 1, step 2 of 4; 0:01:00 so far"]


def test_a_terminal_has_a_bar_and_a_switched_off_bar_has_no_lines(
    shown: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _train(TrainingProgress("mlb", refresh_rate=0))
    assert "mlb" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich then takes the output for a terminal
    assert shown(20) == []
