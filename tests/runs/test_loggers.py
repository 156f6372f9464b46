"""metrics.csv of a run that is killed and resumed."""

import csv
from pathlib import Path

import pytest

from ivqa.runs.loggers import RunCSVLogger, RunWandbLogger


def _logged(folder: Path, first_step: int, *rows: tuple[int, dict[str, float]]) -> RunCSVLogger:
    logger = RunCSVLogger(str(folder), first_step)
    for step, metrics in rows:
        logger.log_metrics(metrics, step)
        logger.save()
    return logger


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_resumed_run_loses_no_row_at_any_moment(tmp_path: Path) -> None:
    _logged(tmp_path, 0, (3, {"val": 0.5}), (7, {"loss": 0.25}), (9, {"val": 0.125}))
    with (tmp_path / "metrics.csv").open("a") as stream:
        stream.write(",1")  # a kill cut this row short, of step 10
    logger = RunCSVLogger(str(tmp_path), 8)
    assert logger.experiment is logger.experiment
    # As soon as the file is open, before anything is logged; rows from step 8 are logged again.
    kept = [{"step": "3", "val": "0.5", "loss": ""}, {"step": "7", "val": "", "loss": "0.25"}]
    assert _rows(tmp_path) == kept
    logger.log_metrics({"train": 2.0}, 8)
    logger.save()
    kept = [{**row, "train": ""} for row in kept]
    new = {"step": "8", "val": "", "loss": "", "train": "2.0"}
    assert _rows(tmp_path) == [*kept, new]


def test_a_new_column_leaves_the_rows_if_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = _logged(tmp_path, 0, (3, {"val": 0.5}))

    def fail(writer: csv.DictWriter, rows: object) -> None:
        raise OSError

    monkeypatch.setattr(csv.DictWriter, "writerows", fail)
    logger.log_metrics({"train": 2.0}, 4)
    with pytest.raises(OSError):  # noqa: PT011 - the one above, without a text
        logger.save()
    assert _rows(tmp_path) == [{"step": "3", "val": "0.5"}]


def test_a_new_run_begins_a_new_file(tmp_path: Path) -> None:
    _logged(tmp_path, 0, (3, {"val": 0.5}))
    _logged(tmp_path, 0, (1, {"val": 1.0}))
    assert _rows(tmp_path) == [{"step": "1", "val": "1.0"}]


def test_wandb_begins_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Lightning passes a setting without effect, of which newer versions of W&B warn."""
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    RunWandbLogger(str(tmp_path)).experiment  # noqa: B018 - the first access begins the run
    wandb.finish()
    assert "WARNING" not in capfd.readouterr().err
