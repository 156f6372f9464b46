"""Under `wandb agent` the assigned run holds the objective; parts log to their own files."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from wandb.proto import wandb_internal_pb2

from .conftest import PROJECT, TINY_DIAGNOSIS, start

_BLOCK = 32 * 1024


def _records(file: Path) -> Iterator[wandb_internal_pb2.Record]:
    """The records of an offline run: protobuf messages in LevelDB's log format."""
    content, at, pieces = file.read_bytes(), 7, []  # after the header
    while at + 7 <= len(content):
        if _BLOCK - at % _BLOCK < 7:
            at += _BLOCK - at % _BLOCK  # padding at the end of a block
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)
        pieces.append(content[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (1, 4):  # full, or last
            yield wandb_internal_pb2.Record.FromString(b"".join(pieces))
            pieces = []


def _logged(file: Path) -> tuple[str, set[str]]:
    """The id of an offline run, and the names of all metrics in it."""
    run_id, names = "", set()
    for record in _records(file):
        run_id = record.run.run_id or run_id
        for item in record.history.item:
            names.add(item.key or "/".join(item.nested_key))
    return run_id, names


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The environment of a program that `wandb agent` starts, without a network."""
    parameters = tmp_path / "config-abcd1234.yaml"
    parameters.write_text(yaml.dump({"wandb_version": 1, "seed": {"value": 3}}))
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    variables = {
        "MODE": "offline",
        "SWEEP_ID": "sweep123",
        "RUN_ID": "abcd1234",
        "SWEEP_PARAM_PATH": str(parameters),
        "PROJECT": "ivqa",
        "ENTITY": "someone",
        "DIR": str(tmp_path / "agent"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    return tmp_path


def test_one_run_holds_the_objective_and_no_part_logs_to_it(agent: Path, tiny_root: Path) -> None:
    sweep = yaml.safe_load((PROJECT / "conf" / "sweep" / "rl_rewards.yaml").read_text())
    assert sweep["program"] == "diagnose.py"
    fixed = [item for item in sweep["command"][3:-1] if not item.startswith("vqa")]
    artifacts = agent / "artifacts"
    process = start(
        "diagnose", *TINY_DIAGNOSIS, *fixed, "vqa=vanilla", "seed=3",
        "data=vqa_json", f"data.root={tiny_root}", f"output_dir={agent / 'run'}",
        cwd=agent, artifacts=artifacts,
    )  # fmt: skip
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    (file,) = agent.rglob("*.wandb")
    assert file.is_relative_to(agent / "run")
    run_id, names = _logged(file)
    assert run_id == "abcd1234"
    assert sweep["metric"]["name"] in names
    assert "vqa/accuracy" in names
    assert not [name for name in names if name.split("/")[0] in ("train", "val", "epoch")]
    # Generator, legality model, VQA model and policy were trained.
    assert len(list(artifacts.rglob("run/metrics.csv"))) == 4
