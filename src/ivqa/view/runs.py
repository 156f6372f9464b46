"""The runs below a folder: their figures and pages, sorted, searched and compared."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from ivqa.errors import UserError
from ivqa.provenance import FILE as PROVENANCE
from ivqa.report.model_names import title_of
from ivqa.report.tables import cell, with_interval
from ivqa.robustness.records import RECORDS_FILE
from ivqa.runs.run_directory import read_config, read_metrics
from ivqa.store.files import read_json

ANNOTATE = "annotate.html"
_PAGES = ("report.html", "robustness.html", "consistency.html", "questions.html", ANNOTATE)
_SERVED = (".html", ".png")
# Columns of the list, where any run has them.
_HEADLINES = (
    "vqa/accuracy", "robustness/partition_0/accuracy", "robustness/r_score", "beliefs/count",
    "beliefs/correct", "beliefs/errors_at_least", "consistency/rate", "best/consistent", "cider",
    "pools/acc_at_1", "agreement/alpha", "val/reward", "train/seconds",
)  # fmt: skip
_MOST_COLUMNS = 8
_MOST_PAIRED = 4  # runs that evaluate.py compare= takes
# Settings that differ between all runs and say nothing about their figures.
_PLACES = ("output_dir", "artifacts", "resume", "logger", "data.cache_dir")
_ENDS = ("_low", "_high")


@dataclass(frozen=True)
class StoredRun:
    """What a run directory holds.

    Attributes:
        name: The path below the folder of the app; "." for the folder itself.
        pages: Names of its pages, reports first.
        fault: What is damaged, in a sentence; "" if nothing is.
    """

    name: str
    folder: Path
    metrics: Mapping[str, float]
    command: str
    model: str
    data: str
    started: str
    pages: Sequence[str]
    fault: str = ""

    @property
    def address(self) -> str:
        """The path of its files in the app, which ends with a slash."""
        return "" if self.name == "." else f"{self.name}/"

    def figure(self, name: str) -> str:
        """A figure with its interval where it has one; "" where the run lacks it."""
        value = self.metrics.get(name)
        ends = [self.metrics.get(f"{name}{end}") for end in _ENDS]
        if value is None:
            return ""
        return cell(value) if None in ends else with_interval(value, *ends)  # type: ignore[arg-type]

    def config(self) -> dict[str, Any]:
        """The settings of the run; raises FileError where config.yaml is damaged."""
        file = self.folder / "config.yaml"
        return _config(self.folder, file.stat().st_mtime_ns) if file.is_file() else {}


@lru_cache(maxsize=2048)
def _config(folder: Path, written: int) -> dict[str, Any]:
    del written  # a new file is read again
    return read_config(folder)


def find_runs(folder: Path) -> dict[str, StoredRun]:
    """Finds the run directories in a folder and below, by name; links are not followed."""
    found = {}
    for place, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith((".", "checkpoints")))
        if {"metrics.json", "config.yaml"} & set(files):
            run = _stored(Path(place), folder, files)
            found[run.name] = run
    return found


def _stored(place: Path, root: Path, files: Sequence[str]) -> StoredRun:
    metrics: dict[str, float] = {}
    origin: dict[str, Any] = {}
    fault = ""
    try:
        if "metrics.json" in files:
            metrics = read_metrics(place / "metrics.json")
        if PROVENANCE in files:
            origin = read_json(place / PROVENANCE, dict)
    except UserError as error:
        fault = str(error)
    others = sorted(name for name in files if name.endswith(".html") and name not in _PAGES)
    return StoredRun(
        name=place.relative_to(root).as_posix(),
        folder=place,
        metrics=metrics,
        command=str(origin.get("command") or ""),
        model=title_of(str(origin.get("model") or "")),
        data=str(origin.get("data") or ""),
        started=str(origin.get("started") or "")[:16].replace("T", " "),
        pages=[*(name for name in _PAGES if name in files), *others],
        fault=fault,
    )


def figures_of(runs: Sequence[StoredRun]) -> list[str]:
    """The names of all figures of the runs, without those of ends of intervals."""
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    return [name for name in names if not _is_end(name, names)]


def columns_of(runs: Sequence[StoredRun]) -> list[str]:
    """The figures that the list shows unless the user chooses others."""
    known = figures_of(runs)
    chosen = [name for name in _HEADLINES if name in known]
    return (chosen or known)[:_MOST_COLUMNS]


def listed(
    runs: Sequence[StoredRun], *, find: str, sort: str, order: Literal["up", "down"]
) -> list[StoredRun]:
    """The runs that have all words of `find` somewhere, sorted; those without a value come last.

    Args:
        sort: "name", "model", "data", "started", or the name of a figure.
    """
    words = find.casefold().split()
    texts = {run.name: f"{run.name} {run.model} {run.data} {run.command}" for run in runs}
    kept = [run for run in runs if all(word in texts[run.name].casefold() for word in words)]

    def value(run: StoredRun) -> Any:
        return getattr(run, sort) if sort in _TEXTS else run.metrics.get(sort)

    present = [run for run in kept if value(run) not in (None, "")]
    missing = [run for run in kept if value(run) in (None, "")]
    return sorted(present, key=value, reverse=order == "down") + missing


_TEXTS = ("name", "model", "data", "started")


def served_file(folder: Path, path: str) -> Path | None:
    """The page or picture below a folder that a path of the app names; None if it is no such file.

    Links that lead out of the folder are refused, and hidden files.
    """
    root = folder.resolve()
    try:
        file = (root / path).resolve()
        inside = file.is_relative_to(root) and file.is_file()
    except (OSError, ValueError):  # a name that is too long, a zero byte
        return None
    if not inside or file.suffix not in _SERVED:
        return None
    parts = file.relative_to(root).parts
    return None if any(part.startswith(".") for part in parts) else file


@dataclass(frozen=True)
class Row:
    """A line of a comparison: a value of each run, and for a figure what each differs by."""

    name: str
    values: Sequence[str]
    differences: Sequence[str] = ()


def differing_settings(runs: Sequence[StoredRun]) -> list[Row]:
    """The settings that differ between the runs, but for places on the machine."""
    columns = [dict(_leaves(run.config())) for run in runs]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = []
    for name in names:
        values = [column.get(name, "") for column in columns]
        if len(set(values)) > 1 and not name.startswith(_PLACES):
            rows.append(Row(name, values))
    return rows


def compared_figures(runs: Sequence[StoredRun]) -> list[Row]:
    """All figures of the runs, with the difference of each run from the first."""
    first = runs[0].metrics
    rows = []
    for name in figures_of(runs):
        differences = [
            f"{run.metrics[name] - first[name]:+.4g}"
            if name in run.metrics and name in first
            else ""
            for run in runs[1:]
        ]
        rows.append(Row(name, [run.figure(name) for run in runs], differences))
    return rows


def can_be_paired(runs: Sequence[StoredRun]) -> bool:
    """Whether evaluate.py compare= takes the runs: each has a file of all its answers."""
    return len(runs) <= _MOST_PAIRED and all((run.folder / RECORDS_FILE).is_file() for run in runs)


def _is_end(name: str, names: Mapping[str, Any]) -> bool:
    """Whether a figure is an end of the interval of another one."""
    return any(name.endswith(end) and name.removesuffix(end) in names for end in _ENDS)


def _leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names of the values of a configuration, and the values as text."""
    if isinstance(node, dict) and node:
        for key, child in node.items():
            yield from _leaves(child, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, "null" if node is None else str(node)
