"""Every problem of a data set at once, before anything trains."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ivqa.errors import UserError

SHOWN = 20


class DataError(UserError):
    """A data set does not hold what it must; the message names file, id and field."""


class Problems:
    """Collects what is wrong, so that one run of the program reports all of it.

    >>> problems = Problems()
    >>> problems.add("annotations_val.json", "question 1042", "answers", "has no answers")
    >>> problems.raise_if_any()
    Traceback (most recent call last):
    ...
    ivqa.data.validation.DataError: 1 problem in the data:
      annotations_val.json: question 1042: answers: has no answers
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0

    def add(self, file: Path | str, record: str, field: str, problem: str) -> None:
        """Notes one problem: `record` says which one by id, `field` may be empty."""
        self._count += 1
        if len(self._lines) < SHOWN:
            name = file.name if isinstance(file, Path) else file
            self._lines.append(": ".join(part for part in (name, record, field, problem) if part))

    def __len__(self) -> int:
        return self._count

    def raise_if_any(self) -> None:
        """Raises DataError with the first 20 problems and the number of all of them."""
        if not self._count:
            return
        noun = "problem" if self._count == 1 else "problems"
        more = f", the first {SHOWN}" if self._count > SHOWN else ""
        raise DataError(f"{self._count} {noun} in the data{more}:\n  " + "\n  ".join(self._lines))


def shown(value: object) -> str:
    """A wrong value as an error shows it: short, and NaN called by its name.

    >>> shown(float("nan")), shown("7"), shown("x" * 60)
    ('NaN', "'7'", "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...")
    """
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    try:
        text = repr(value)
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    return text if len(text) <= 42 else text[:39] + "..."


def is_id(value: object) -> bool:
    """Whether `value` is an integer (no bool, no text) that int64 holds."""
    return type(value) is int and -(2**63) <= value < 2**63


def check_id(
    record: dict[str, Any], field: str, file: Path, where: str, problems: Problems
) -> int | None:
    """The integer under `field`, None where it is missing or none, which is noted."""
    if field not in record:
        problems.add(file, where, field, "is missing")
        return None
    value = record[field]
    if not is_id(value):
        problems.add(file, where, field, f"must be an integer, not {shown(value)}")
        return None
    return int(value)


def check_text(
    record: dict[str, Any], field: str, file: Path, where: str, problems: Problems
) -> str | None:
    """The text under `field`, None where it is missing or no text, which is noted."""
    if field not in record:
        problems.add(file, where, field, "is missing")
        return None
    value = record[field]
    if not isinstance(value, str):
        problems.add(file, where, field, f"must be text, not {shown(value)}")
        return None
    return value


def check_root(root: Path) -> None:
    """Raises DataError where `root` is no folder, with the nearest folder that exists."""
    if root.is_dir():
        return
    if root.exists():
        raise DataError(f"data root {root} is a file; give the folder that holds the JSON files")
    nearest = next(parent for parent in root.absolute().parents if parent.is_dir())
    held = sorted(entry.name + "/" for entry in nearest.iterdir() if entry.is_dir())
    listing = ", ".join(held[:10]) + (", ..." if len(held) > 10 else "")
    raise DataError(
        f"data root {root} does not exist; the nearest folder that does is {nearest}, "
        f"which holds {listing or 'no folders'}"
    )


def listed(names: Sequence[str], limit: int = 10) -> str:
    """Names for an error message, at most `limit` of them.

    >>> listed(["train", "val"]), listed([])
    ('train, val', 'none')
    """
    if not names:
        return "none"
    return ", ".join(names[:limit]) + (f", ... ({len(names)} in all)" if len(names) > limit else "")
