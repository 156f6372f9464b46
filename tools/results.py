"""Runs the experiments of conf/results.yaml and writes docs/results.md: `make results`.

    python -m tools.results                     run what is missing, then write the page
    python -m tools.results models table2       only these experiments
    python -m tools.results --page              write the page only
    python -m tools.results --import models=DIR --commit abc1234 --machine "2 cores, AVX2"

Each experiment runs in its own directory below outputs/results. One is skipped where its results
are there and the code has not changed since, so a killed run continues with the next experiment;
models that are trained already are found in the artifact store. docs/results.json keeps the
numbers of the page, so that the page can be written again without a run.
"""

import argparse
import ast
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ivqa.errors import UserError
from ivqa.provenance import commit_of, seeds_of, this_machine, versions
from ivqa.runs.run_directory import read_metrics
from ivqa.store.digests import digest
from ivqa.store.files import read_json, read_yaml, write_json, write_text
from ivqa.sweeps.multirun import distinguishing
from ivqa.terminal import terminal
from tools.results_page import Experiment, Record, results_page

# Of these a setting is called by its value alone: "mlb" for "model=mlb".
_KNOWN_GROUPS = ("model", "vqa", "reward", "ranker")
# Their code changes no number.
_WITHOUT_EFFECT = ("report", "provenance.py", "console.py")


@dataclass(frozen=True)
class Project:
    """Where the runner finds and writes its files.

    Args:
        root: The checkout, which holds evaluate.py and conf/.
    """

    root: Path

    @property
    def runs(self) -> Path:
        """One directory an experiment."""
        return self.root / "outputs" / "results"

    @property
    def records(self) -> Path:
        """The numbers of the page."""
        return self.root / "docs" / "results.json"

    def sections(self) -> list[tuple[str, str, list[Experiment]]]:
        """Title, text and experiments of every section of the page."""
        found = read_yaml(self.root / "conf" / "results.yaml", list)
        return [
            (
                part["title"],
                part.get("text", ""),
                [Experiment(**one) for one in part["experiments"]],
            )
            for part in found
        ]

    def experiments(self) -> dict[str, Experiment]:
        """All experiments by name."""
        return {one.name: one for _, _, part in self.sections() for one in part}


def main(arguments: Sequence[str] | None = None, root: Path | None = None) -> None:
    """Runs, imports, or writes the page, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="experiments; all where none is named")
    parser.add_argument("--page", action="store_true", help="write the page only")
    parser.add_argument("--import", dest="imported", metavar="NAME=DIR", action="append")
    parser.add_argument("--commit", help="of the imported runs")
    parser.add_argument("--machine", help="of the imported runs; this one where not given")
    parser.add_argument("--seconds", type=float, default=0.0, help="of the imported run")
    options = parser.parse_args(arguments)
    project = Project(root or Path(__file__).parents[1])
    failed: list[str] = []
    try:
        known = project.experiments()
        wanted = [item.partition("=") for item in options.imported or []]
        if unknown := {*options.names, *(name for name, _, _ in wanted)} - set(known):
            raise UserError(f"no experiment '{min(unknown)}'; there are {', '.join(known)}")
        if wanted and not options.commit:
            raise UserError("--import needs --commit: which code made the numbers")
        for name, _, directory in wanted:
            settings = measured(Path(directory), known[name])
            machine = options.machine or this_machine()
            seeds = seeds_of(jobs_in(Path(directory)))
            record = Record(options.commit, machine, options.seconds, settings, seeds=seeds)
            keep(project, name, record)
        if not wanted and not options.page:
            chosen = [known[name] for name in options.names or known]
            failed = [one.name for one in chosen if not obtain(project, one)]
        write_page(project)
    except UserError as error:
        sys.exit(f"error: {error}")
    if failed:
        sys.exit(f"error: failed, see its log in outputs/results: {', '.join(failed)}")


def obtain(project: Project, experiment: Experiment) -> bool:
    """Runs an experiment unless the code of today has run it, and keeps what it measured.

    Returns:
        False where the command or one of its jobs failed; the log is beside its directory.
    """
    console = terminal()
    if missing := [name for name in experiment.needs if not os.environ.get(name)]:
        console.print(f"{experiment.name}: skipped, {' and '.join(missing)} is not set")
        return True
    directory = project.runs / experiment.name
    commands = [experiment.command, experiment.baseline]
    made_by = {"code": code_of(project.root), "commands": commands}
    stamp = directory / "made_by.json"
    if stamp.is_file() and read_json(stamp) == made_by:
        console.print(f"{experiment.name}: done before, by the same code")
        return True
    console.print(f"{experiment.name}: python {experiment.command}", soft_wrap=True)
    # Jobs of an earlier command would count as jobs of this one; trained models are in the store.
    shutil.rmtree(directory, ignore_errors=True)
    start = time.monotonic()
    if experiment.first is not None and not _run(project, experiment.first, directory / "first"):
        return False
    baseline = directory / "baseline"
    if experiment.baseline is not None and not _run(project, experiment.baseline, baseline):
        return False
    if not _run(project, experiment.command, directory):
        return False
    jobs = jobs_in(directory)
    if not all(job["metrics"] for job in jobs):
        return False
    seconds = time.monotonic() - start
    record = Record(
        commit_of(project.root),
        this_machine(),
        seconds,
        measured(directory, experiment),
        versions(),
        seeds_of(jobs),
    )
    keep(project, experiment.name, record)
    write_json(stamp, made_by)
    write_page(project)
    return True


def jobs_in(directory: Path) -> list[dict[str, Any]]:
    """The jobs of a finished multirun, or of a single run: {"overrides", "metrics"}.

    Raises:
        UserError: Nothing has finished there.
    """
    if (directory / "results.json").is_file():
        return list(read_json(directory / "results.json", list))
    if (directory / "metrics.json").is_file():
        overrides = read_yaml(directory / "overrides.yaml", list)
        return [{"overrides": overrides, "metrics": read_metrics(directory / "metrics.json")}]
    raise UserError(f"{directory} holds neither results.json nor metrics.json: no finished run")


def measured(directory: Path, experiment: Experiment) -> dict[str, list[dict[str, float]]]:
    """The settings of a finished experiment, those of its baseline first; see `settings_of`.

    Raises:
        UserError: Nothing has finished in the directory, or in its folder baseline/.
    """
    settings = settings_of(jobs_in(directory), experiment)
    if experiment.baseline is None:
        return settings
    return {**settings_of(jobs_in(directory / "baseline"), experiment), **settings}


def settings_of(
    jobs: Sequence[Mapping[str, Any]], experiment: Experiment
) -> dict[str, list[dict[str, float]]]:
    """The metrics that the page shows, one entry a seed, by what tells a setting from the others.

    Raises:
        UserError: No job has one of the metrics.
    """
    overrides = [[str(one) for one in job["overrides"] if one[:5] != "seed="] for job in jobs]
    names = distinguishing(overrides)
    if len(set(map(tuple, overrides))) == 1:  # no other setting to tell it from: its model alone
        names = [" ".join(one for one in overrides[0] if _group(one) in _KNOWN_GROUPS)] * len(jobs)
    wanted = {spec[0] for spec in experiment.metrics.values()}
    for prefixes in experiment.shared_rows.values():
        for prefix, other in prefixes.items():
            wanted |= {other + name.removeprefix(prefix) for name in wanted}
    ends = ("", "_low", "_high")
    wanted = {name + end for name in wanted for end in ends} | {experiment.sort or ""}
    settings: dict[str, list[dict[str, float]]] = {}
    for name, job in zip(names, jobs, strict=True):
        kept = {key: value for key, value in job["metrics"].items() if key in wanted}
        settings.setdefault(_label(name), []).append(kept)
    found = {key for seeds in settings.values() for one in seeds for key in one}
    if absent := {spec[0] for spec in experiment.metrics.values()} - found:
        raise UserError(f"{experiment.name}: no job measured {', '.join(sorted(absent))}")
    return settings


def keep(project: Project, name: str, record: Record) -> None:
    """Stores what an experiment measured in docs/results.json."""
    stored = read_json(project.records, dict) if project.records.is_file() else {}
    write_json(project.records, stored | {name: asdict(record)})


def write_page(project: Project) -> None:
    """Writes docs/results.md from docs/results.json."""
    stored = read_json(project.records, dict) if project.records.is_file() else {}
    records = {name: Record(**values) for name, values in stored.items()}
    write_text(project.root / "docs" / "results.md", results_page(project.sections(), records))


def code_of(root: Path) -> str:
    """A digest of the package's code and of conf/, without comments and docstrings."""
    package, conf = root / "src" / "ivqa", root / "conf"
    found = {}
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package).as_posix()
        if not name.startswith(_WITHOUT_EFFECT):
            found[name] = ast.dump(_without_docstrings(ast.parse(file.read_bytes())))
    for file in sorted(conf.rglob("*.yaml")):
        if file.name != "results.yaml":
            lines = [line.partition(" #")[0].rstrip() for line in file.read_text().splitlines()]
            kept = [line for line in lines if line and not line.startswith("# ")]
            found[f"conf/{file.relative_to(conf).as_posix()}"] = "\n".join(kept)
    return digest(found)


def _group(override: str) -> str:
    """The group that an override such as model@vqa=mlb chooses from."""
    return override.partition("=")[0].partition("@")[0]


def _label(setting: str) -> str:
    """A setting as the table calls it.

    >>> _label("model=mlb augment=none"), _label("model@vqa=mlb"), _label("")
    ('mlb augment=none', 'mlb', 'default')
    """
    items = [item.partition("=") for item in setting.split()]
    # What chooses the experiment or data says nothing where there is one job.
    shown = [item for item in items if item[0] not in ("experiment", "output_dir")]
    texts = [value if _group(key) in _KNOWN_GROUPS else f"{key}={value}" for key, _, value in shown]
    return " ".join(texts) or "default"


def _run(project: Project, command: str, directory: Path) -> bool:
    """Runs a command with `directory` as its output_dir; $NAME and {dir} are filled in."""
    directory.mkdir(parents=True, exist_ok=True)
    parent = directory.parent if directory.name in ("first", "baseline") else directory
    words = [os.path.expandvars(word) for word in shlex.split(command)]
    words = [word.replace("{dir}", str(parent)) for word in words]
    with (directory / "log.txt").open("w") as log:
        done = subprocess.run(
            [sys.executable, *words, f"output_dir={directory}"],
            cwd=project.root,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode == 0


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not _is_text(item)]  # type: ignore[attr-defined]
    return tree


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


if __name__ == "__main__":
    main()
