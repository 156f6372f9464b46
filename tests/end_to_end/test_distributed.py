"""Two processes on the CPU, started by Lightning or torchrun: a training, and a belief search."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pytorch_lightning.utilities import rank_zero_only

from .conftest import PROJECT, TINY_DIAGNOSIS, TINY_FEATURES, Run, metrics_of

TRAIN = ["model=language_only", "model.epochs=2", "model.batch_size=16", "seed=3"]
TRAIN += ["trainer.precision=32-true", "trainer.accelerator=cpu"]
TWO = ["trainer.devices=2", "trainer.strategy=ddp"]


def _steps(run_dir: Path) -> int:
    file = run_dir / "checkpoints" / "last.ckpt"
    return int(torch.load(file, map_location="cpu", weights_only=True)["global_step"])


TORCHRUN = ["-m", "torch.distributed.run", "--nproc_per_node=2"]


@pytest.mark.slow
@pytest.mark.parametrize("starter", [[], TORCHRUN])
def test_two_processes_train_what_one_does(
    starter: list[str], run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    """Two processes share each batch, so they take the same steps but for rounding and dropout."""
    command = [*TRAIN, "data=vqa_json", f"data.root={tiny_root}"]
    one, two = tmp_path / "one", tmp_path / "two"
    status, printed = run("train", *command, f"output_dir={one}")
    assert status == 0, printed
    done = subprocess.run(
        [sys.executable, *starter, str(PROJECT / "train.py"), *command, *TWO, f"output_dir={two}"],
        cwd=tmp_path, env={**os.environ, "IVQA_ARTIFACTS": str(tmp_path / "own")}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(f"run: {two}") == 1  # one of them prints the table
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two", "own"}
    assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}
    logs = [(folder / "metrics.csv").read_text().splitlines() for folder in (one, two)]
    assert len(logs[0]) == len(logs[1])
    assert _steps(one) == _steps(two) > 0
    metrics = metrics_of(two)
    assert set(metrics) == set(metrics_of(one))
    for name in ("train/epochs", "model/parameters", "val/vqa_accuracy"):
        assert metrics[name] == pytest.approx(metrics_of(one)[name], abs=0.1), name
    # The validation metrics are those of the whole split: one process finds the same.
    evaluated = ["split=val", f"ckpt={two / 'checkpoints' / 'best.ckpt'}", "output_dir=again"]
    status, printed = run("evaluate", *command, *evaluated)
    assert status == 0, printed
    again = metrics_of(tmp_path / "again")
    assert metrics["val/vqa_accuracy"] == pytest.approx(again["val/vqa_accuracy"])


@pytest.mark.slow
def test_two_processes_diagnose_what_one_does(tiny_root: Path, tmp_path: Path) -> None:
    """Features, missing models and the search are shared, and one process writes the report."""
    command = [str(PROJECT / "diagnose.py"), "vqa=mlb", "data=vqa_json", f"data.root={tiny_root}"]
    command += [*TINY_DIAGNOSIS, "num_images=10", "pool=top", "num_top_answers=8"]
    one, two = tmp_path / "one", tmp_path / "two"
    # Each makes features and models of its own, with one thread a process: sums depend on threads.
    for folder, starter in ((one, []), (two, TORCHRUN)):
        done = subprocess.run(
            [sys.executable, *starter, *command, "callbacks=default", f"output_dir={folder}"],
            cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500,
            env={**os.environ, "IVQA_ARTIFACTS": f"{folder} store", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
    assert done.stdout.count("report, by another process: ") == 1
    assert len(list((two / "parts").glob("*.json"))) == 2  # of 50 pairs
    # The page names its command, with the folder.
    for file in ("beliefs.jsonl", "report.html"):
        found = (two / file).read_text().replace(str(two), str(one))
        assert found == (one / file).read_text(), file
    assert metrics_of(two) == metrics_of(one)


def test_a_missing_model_has_its_log_whichever_process_trains_it(
    run: Run, tiny_root: Path, artifacts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def logs() -> set[Path]:
        return set((artifacts / "models").glob("vanilla-*/run/metrics.csv"))

    earlier = logs()
    monkeypatch.setattr(rank_zero_only, "rank", 1)  # as in the second process of torchrun
    command = ["model=vanilla", "seed=11", "data=vqa_json", f"data.root={tiny_root}", "split=val"]
    status, printed = run("evaluate", *command, *TINY_FEATURES, "model.epochs=1")
    assert status == 0, printed
    assert "No trained vanilla" in printed
    (log,) = logs() - earlier
    assert "val/vqa_accuracy" in log.read_text()
    assert rank_zero_only.rank == 1  # type: ignore[attr-defined]


def test_torchrun_needs_one_directory_for_a_diagnosis(
    run: Run, tiny_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    status, printed = run("diagnose", "vqa=mlb", "data=vqa_json", f"data.root={tiny_root}")
    assert status == 1
    assert "torchrun starts processes that share a run; pass output_dir=DIR" in printed


def test_where_several_processes_cannot_be_started(run: Run, tiny_root: Path) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", *TRAIN, *TWO]
    status, printed = run("train", "-m", *data, "output_dir=sweep")
    assert status == 1
    assert "with -m, Lightning cannot start the other processes" in printed.replace("\n", " ")
    status, printed = run("evaluate", *data)
    assert status == 1
    assert "only train.py trains with several processes" in printed.replace("\n", " ")
