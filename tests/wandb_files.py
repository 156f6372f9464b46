"""Reads offline runs of W&B: protobuf messages in LevelDB's log format."""

import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

_BLOCK = 32 * 1024
_PATIENCE = 60  # seconds


@dataclass
class OfflineRun:
    """What a file of an offline run holds; the last value of each key.

    `history` has the values of each key in their order, and `artifacts` the names of the files of
    each artifact, by its type.
    """

    id: str = ""
    name: str = ""
    group: str = ""
    job_type: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[Any]] = field(default_factory=dict)
    artifacts: dict[str, list[str]] = field(default_factory=dict)


def read_run(file: Path) -> OfflineRun:
    """Reads the file of a finished run, which W&B's service may still be writing."""
    ends, run = time.monotonic() + _PATIENCE, OfflineRun()
    while not any(record.HasField("exit") for record in _records(file)):
        assert time.monotonic() < ends, f"{file} has no end"
        time.sleep(0.1)
    for record in _records(file):
        if record.HasField("run"):
            run.id = record.run.run_id or run.id
            run.name = record.run.display_name or run.name
            run.group = record.run.run_group or run.group
            run.job_type = record.run.job_type or run.job_type
            run.config |= _values(record.run.config.update)
        run.config |= _values(record.config.update)
        run.summary |= _values(record.summary.update)
        for name, value in _values(record.history.item).items():
            run.history.setdefault(name, []).append(value)
        if record.request.HasField("log_artifact"):
            _add(run, record.request.log_artifact.artifact)
        if record.HasField("artifact"):
            _add(run, record.artifact)
    return run


def _add(run: OfflineRun, artifact: wandb_internal_pb2.ArtifactRecord) -> None:
    run.artifacts[artifact.type] = [entry.path for entry in artifact.manifest.contents]


def _values(items: Any) -> dict[str, Any]:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(file: Path) -> Iterator[wandb_internal_pb2.Record]:
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
