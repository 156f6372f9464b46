"""Two processes in one run directory, a store that may only be read, and a full disk."""

import errno
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from ivqa.store.locks import try_lock

from .conftest import Run, metrics_of, start

PRIOR = ["model=prior", "model.epochs=1", "features=none", "data=vqa_json"]


@pytest.mark.slow
def test_of_two_trainings_in_one_directory_the_second_ends_at_once(
    run: Run, tiny_root: Path, tmp_path: Path, artifacts: Path
) -> None:
    command = [*PRIOR, f"data.root={tiny_root}", "output_dir=run"]
    first = start("train", *command, "trainer.max_epochs=100000", cwd=tmp_path, artifacts=artifacts)
    try:
        while not (tmp_path / "run" / "checkpoints" / "last.ckpt").is_file():
            assert first.poll() is None, first.communicate()[0]
        before = (tmp_path / "run" / "overrides.yaml").read_text()
        for task in ("train", "evaluate"):
            status, printed = run(task, *command, "seed=2")
            assert status == 1
            assert f"error: output_dir={tmp_path / 'run'}: another process runs there" in printed
            assert "Traceback" not in printed
        assert (tmp_path / "run" / "overrides.yaml").read_text() == before
    finally:
        first.kill()  # its lock is free again
        first.communicate()
    status, printed = run("train", *command, "seed=2")
    assert status == 0, printed
    assert metrics_of(tmp_path / "run")["train/epochs"] == 1


def test_a_new_run_in_an_old_directory_leaves_nothing_to_resume(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interruption before the first checkpoint must not continue the earlier run."""
    command = [*PRIOR, f"data.root={tiny_root}", "output_dir=run"]
    assert run("train", *command)[0] == 0

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytorch_lightning.Trainer.fit", interrupt)
    status, printed = run("train", *command, "seed=2")
    assert status == 130
    told = "error: interrupted; written files are kept; continue with: "
    again = shlex.split(printed.partition(told)[2])
    assert again[-1] == f"output_dir={tmp_path / 'run'}"
    assert {*command[:-1], "seed=2"} <= set(again)
    assert "output_dir=run" not in again
    status, printed = run("train", "resume=run")
    assert status == 1
    assert "nothing to resume" in printed
    assert "give its command again, with output_dir=run" in printed


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_store_that_may_only_be_read_is_used(
    number: int, run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*PRIOR, f"data.root={tiny_root}", "artifacts=store", "split=val"]
    assert run("evaluate", *command, "output_dir=first")[0] == 0
    acquire, make = FileLock.acquire, os.mkdir

    def refused(place: Any) -> None:
        if Path(place).is_relative_to("store") and not Path(place).is_dir():
            raise OSError(number, os.strerror(number), str(place))

    def acquire_elsewhere(self: FileLock, *args: Any, **options: Any) -> Any:
        refused(self.lock_file)
        return acquire(self, *args, **options)

    def make_elsewhere(place: Any, *args: Any) -> None:
        refused(place)
        make(place, *args)

    def no_draft(folder: Path) -> None:
        raise AssertionError(f"{folder} is written")

    monkeypatch.setattr(FileLock, "acquire", acquire_elsewhere)
    monkeypatch.setattr(os, "mkdir", make_elsewhere)
    status, printed = run("evaluate", *command, "output_dir=second")
    assert status == 0, printed
    assert (
        metrics_of(tmp_path / "second")["vqa/accuracy"]
        == metrics_of(tmp_path / "first")["vqa/accuracy"]
    )
    status, printed = run("evaluate", *command, "seed=7", "output_dir=third")
    assert status == 1
    assert "does not exist and cannot be created" in printed
    assert "choose a folder that you may write" in printed


def test_a_full_disk_is_named_with_the_command_that_continues(
    run: Run, tiny_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if self.name.endswith("metrics.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    status, printed = run("train", *PRIOR, f"data.root={tiny_root}", "output_dir=run")
    assert status == 1
    file = tmp_path / "run" / "metrics.json"
    assert f"error: {file}: no space left on device (it needs 0.0 MB, " in printed
    assert " MB are free); make room on the disk; then continue with: " in printed
    monkeypatch.setattr(Path, "write_bytes", write)
    arguments = shlex.split(printed.split("continue with: ")[1])
    assert arguments[-2:] == ["train.py", f"resume={tmp_path / 'run'}"]
    assert run("train", arguments[-1])[0] == 0


def test_a_run_of_another_command_is_named(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    assert run("train", *PRIOR, f"data.root={tiny_root}", "output_dir=run")[0] == 0
    status, printed = run("diagnose", "resume=run")
    assert status == 1
    assert "error: resume=run is a run of train, not of diagnose; continue it with: " in printed
    assert printed.endswith(" train.py resume=run\n")


def test_annotations_are_read_before_anything_is_trained(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    judged = '"answer": "yes", "question": "Is it red?", "relevant": false'
    for content, message in (
        ("[1]", "record 1: must be an object, not 1"),
        ('[{"image_id": 1}]', "record 1: lacks "),
        (f'[{{"image_id": -5, {judged}}}]', "image -5 is not in the split of this run"),
    ):
        (tmp_path / "judged.json").write_text(content)
        command = ["vqa=language_only", "data=vqa_json", f"data.root={tiny_root}", "split=val"]
        status, printed = run("diagnose", *command, "annotations=judged.json", "features=concepts")
        assert status == 1
        assert message in printed
        assert "judged.json" in printed
        assert "Traceback" not in printed
        assert "concept predictor" not in printed
        assert "training it first" not in printed


def test_the_lock_of_a_directory_is_given_back(run: Run, tiny_root: Path, tmp_path: Path) -> None:
    assert run("train", *PRIOR, f"data.root={tiny_root}", "output_dir=run")[0] == 0
    lock = try_lock(tmp_path / "run" / ".lock")
    assert lock is not None
    lock.release()
