"""A job of a cluster that is preempted is queued again and continues where it was."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch

from .conftest import Run, metrics_of, start

pytest.importorskip(
    "submitit", reason="the jobs are started by submitit; install the extra `cluster` to test them"
)


def _child(process: int) -> int | None:
    """The only child of a process; None while it has none."""
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return int(text) if text else None


@pytest.mark.slow
def test_a_preempted_job_ends_as_one_that_was_left_alone(
    run: Run, tiny_root: Path, tmp_path: Path, artifacts: Path
) -> None:
    """submitit's local executor queues a job again as Slurm does, after the same signal."""
    command = ["model=language_only", "data=vqa_json", f"data.root={tiny_root}"]
    command += ["model.epochs=20", "model.batch_size=16", "features=none"]
    whole, sweep = tmp_path / "whole", tmp_path / "sweep"
    status, printed = run("train", *command, f"output_dir={whole}")
    assert status == 0, printed

    launcher = "hydra/launcher=submitit_local"
    process = start(
        "train", "-m", *command, launcher, "output_dir=sweep", cwd=tmp_path, artifacts=artifacts
    )
    try:
        while not (sweep / "0" / "checkpoints" / "last.ckpt").is_file():
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.05)
        # The folder of a job is named after the process that starts it, also again.
        (folder,) = (sweep / ".submitit").glob("[0-9]*")
        job = _child(int(folder.name))
        assert job is not None
        written = (sweep / "0" / "overrides.yaml").stat().st_mtime_ns
        os.kill(job, signal.SIGUSR2)
        printed = process.communicate(timeout=300)[0]
    finally:
        process.kill()
    assert process.returncode == 0, printed
    assert "Requeued job" in next(folder.glob("*.out")).read_text()
    # A run that begins anew writes its overrides again.
    assert (sweep / "0" / "overrides.yaml").stat().st_mtime_ns == written
    states = [
        torch.load(place / "checkpoints" / "last.ckpt", weights_only=True)
        for place in (whole, sweep / "0")
    ]
    assert states[0]["global_step"] == states[1]["global_step"]
    for key, value in states[0]["state_dict"].items():
        assert torch.equal(value, states[1]["state_dict"][key]), key
    logs = [(place / "metrics.csv").read_text() for place in (whole, sweep / "0")]
    assert logs[0] == logs[1]
    assert metrics_of(sweep / "0")["val/vqa_accuracy"] == metrics_of(whole)["val/vqa_accuracy"]
