"""Collects all problems of a data set, so that one error reports them before training starts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeGuard, TypeVar

from annotated_types import Interval
from pydantic import TypeAdapter, ValidationError

from ivqa.errors import DataError
from ivqa.store.files import read_text

T = TypeVar("T")
Id = Annotated[int, Interval(ge=-(2**63), lt=2**63)]

SHOWN = 20  # problems in an error message


class Problems:
    """Collects problems; its length is their number.

    Example:
        >>> problems = Problems()
        >>> problems.add("annotations_val.json", "question 1042", "answers", "has no answers")
        >>> problems.raise_if_any()
        Traceback (most recent call last):
        ...
        ivqa.errors.DataError: 1 problem in the data:
          annotations_val.json: question 1042: answers: has no answers
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = 0

    def add(self, file: Path | str, record: str, field: str, problem: str) -> None:
        """Adds one problem: a sentence on what is wrong, and what to do about it.

        Of a Path only the name is shown. `record` names the record by its id, and `field` its
        field; both may be empty.
        """
        self._count += 1
        if len(self._lines) < SHOWN:
            name = file.name if isinstance(file, Path) else file
            self._lines.append(": ".join(part for part in (name, record, field, problem) if part))

    def __len__(self) -> int:
        return self._count

    def raise_if_any(self) -> None:
        """Raises DataError with the first 20 problems and their total number, if there are any."""
        if not self._count:
            return
        noun = "problem" if self._count == 1 else "problems"
        more = f", the first {SHOWN}" if self._count > SHOWN else ""
        raise DataError(f"{self._count} {noun} in the data{more}:\n  " + "\n  ".join(self._lines))


def shown(value: object) -> str:
    """Formats a wrong value for an error message, with at most 42 characters.

    Example:
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


def is_id(value: object) -> TypeGuard[int]:
    """Whether `value` is an integer, not a bool, in the range of int64."""
    return type(value) is int and -(2**63) <= value < 2**63


def checked(
    schema: TypeAdapter[T],
    record: object,
    path: Path,
    where: str,
    problems: Problems,
    remedy: str = "",
) -> T | None:
    """Validates a record without conversions: "1" is not an integer.

    Args:
        schema: The fields of the record, a `TypedDict`; other fields are ignored.
        record: The value in the file.
        path: The file, for the messages.
        where: Names the record by its id, for the messages.
        problems: Collects a fault for each wrong field.
        remedy: What to do about any fault.

    Returns:
        The fields of the schema, or None after a fault.
    """
    try:
        return schema.validate_python(record, strict=True)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            problem = _problem(fault) + (f"; {remedy}" if remedy else "")
            problems.add(path, where, _field(fault["loc"]), problem)
        return None


def read_lines(path: Path, schema: TypeAdapter[T], remedy: str, *, kind: str = "") -> Iterator[T]:
    """Reads JSON Lines and validates each without conversions.

    Args:
        path: The file.
        schema: What a line holds.
        remedy: What to do about a fault.
        kind: What a line is, for the messages, such as "a belief".

    Yields:
        What each line holds.

    Raises:
        DataError: A line does not fit.
        FileError: The file cannot be read.
    """
    # splitlines() would also split at characters such as U+2028, which texts may contain.
    lines = read_text(path).removesuffix("\n").split("\n")
    for number, line in enumerate(lines if any(lines) else [], start=1):
        try:
            yield schema.validate_json(line, strict=True)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            where = _field(fault["loc"]) or "the line"
            what = f"not {kind}: " if kind else ""
            raise DataError(
                f"{path}, line {number}: {what}{where}: {fault['msg']}; {remedy}"
            ) from None


def _field(location: Sequence[int | str]) -> str:
    """The place of a wrong value in its record, such as "answers[1].answer"."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in location]
    return "".join(steps).removeprefix(".")


def _problem(fault: Mapping[str, Any]) -> str:
    kind, value, context = fault["type"], fault["input"], fault.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return "is missing"
    if kind not in _WANTED:
        return f"is {shown(value)}: {fault['msg']}"
    return f"must {_WANTED[kind].format_map(context)}, not {shown(value)}"


# What a value must be, by pydantic's type of the error.
_WANTED = {
    "bool_type": "be true or false",
    "dict_type": "be an object",
    "float_type": "be a number",
    "greater_than_equal": "be an integer of 64 bits",
    "int_type": "be an integer",
    "less_than": "be an integer of 64 bits",
    "list_type": "be a list",
    "literal_error": "be {expected}",
    "string_type": "be text",
    "too_short": "hold {min_length} at least",
}


def check_root(root: Path) -> None:
    """Checks that a data root is a folder.

    Raises:
        DataError: It is not; the message names the nearest existing folder and what it contains.
    """
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
    """Formats at most `limit` names for an error message, and their number if there are more.

    Example:
        >>> listed(["train", "val"]), listed([]), listed(["a", "b", "c"], limit=1)
        ('train, val', 'none', 'a, ... (3 in all)')
    """
    if not names:
        return "none"
    return ", ".join(names[:limit]) + (f", ... ({len(names)} in all)" if len(names) > limit else "")
