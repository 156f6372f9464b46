"""Compares the files that an interrupted command left with those of an undisturbed one."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from ivqa.store.integrity import MANIFEST, first_fault

# Times and counts of what this process did itself, which differ between any two runs.
_OF_THE_RUN = re.compile(r"seconds|per_second|/requests|/reused|/retries|_tokens$")
_DRAFT = re.compile(r"^\.[0-9a-f]+-\d+\.")  # named in ivqa.store.files.atomic_write


def differences(expected: Path, found: Path) -> list[str]:
    """Lists the files that differ.

    Left out are locks, what was printed and Hydra's own files, and times in metrics.json.

    Args:
        expected: The folder of the undisturbed command.
        found: The folder of the interrupted one.

    Returns:
        One text for each file that is missing, left over or different.
    """
    there, here = _files(expected), _files(found)
    faults = [f"{name} is missing" for name in sorted(there.keys() - here.keys())]
    faults += [f"{name} is left over" for name in sorted(here.keys() - there.keys())]
    for name in sorted(there.keys() & here.keys()):
        if fault := _fault(there[name], here[name]):
            faults.append(f"{name}: {fault}")
    return faults


def _files(folder: Path) -> dict[str, Path]:
    found = {}
    for file in (file for part in ("run", "artifacts") for file in (folder / part).rglob("*")):
        inner = file.relative_to(folder)
        if file.is_dir() or ".hydra" in inner.parts or file.name.endswith(".lock"):
            continue
        # The name of a draft has the number of its process.
        name = str(inner.with_name(_DRAFT.sub(".DRAFT.", file.name)))
        found[name] = file
    return found


def _fault(expected: Path, found: Path) -> str | None:
    if expected.name.endswith(MANIFEST):
        return first_fault(found)  # its digests cover times, so it is compared with its own files
    if expected.suffix in (".ckpt", ".pt"):
        return next(_unequal(_loaded(expected), _loaded(found)), None)
    if expected.name in ("metrics.json", "results.json", "origin.json"):
        one, other = (_timeless(json.loads(file.read_text())) for file in (expected, found))
        return next(_unequal(one, other), None)
    if expected.name == "config.yaml":
        one, other = (yaml.safe_load(file.read_text()) for file in (expected, found))
        return next(_unequal({**one, "resume": None}, {**other, "resume": None}), None)
    if expected.suffix == ".csv":
        one, other = (_columns(file) for file in (expected, found))
        return next(_unequal(_timeless(one), _timeless(other)), None)
    return None if expected.read_bytes() == found.read_bytes() else "other content"


def _loaded(file: Path) -> dict[str, Any]:
    return _decisive(torch.load(file, weights_only=True))


def _decisive(value: Any) -> Any:
    """A checkpoint without the counters of Lightning's loops.

    A resumed training counts an interrupted epoch or validation once less or once more. What
    counts is compared: weights, optimiser, schedules, epoch, step, and the best score so far. The
    score of the last validation is set by the next one.
    """
    if not isinstance(value, dict):
        return value
    left_out = ("loops", "current_score", "contents")  # contents lists the counters too
    return {key: _decisive(item) for key, item in value.items() if key not in left_out}


def _columns(file: Path) -> dict[str, list[str]]:
    with file.open() as stream:
        rows = list(csv.DictReader(stream))
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not _OF_THE_RUN.search(key)}
        return {key: _timeless(item) for key, item in kept.items()}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


def _unequal(one: Any, other: Any, name: str = "") -> Iterator[str]:
    """Yields the names of the parts that differ."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one.dtype != other.dtype or not torch.equal(one, other):
            yield f"{name} differs"
    elif isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in one.keys() | other.keys():
            if key not in one or key not in other:
                yield f"{name}.{key} is only in one of them"
            else:
                yield from _unequal(one[key], other[key], f"{name}.{key}")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            yield f"{name} has {len(other)} items, not {len(one)}"
        for number, (a, b) in enumerate(zip(one, other, strict=False)):
            yield from _unequal(a, b, f"{name}[{number}]")
    elif one != other and not (one != one and other != other):  # NaN equals NaN
        yield f"{name} is {other!r}, not {one!r}"
