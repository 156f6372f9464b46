"""Runs the experiments of conf/results.yaml and writes docs/results.md: `make results`.

    python -m tools.results                     run what is out of date, then write the page
    python -m tools.results models table2       only these experiments, and those they read
    python -m tools.results --page              write the page only
    python -m tools.results --import models=DIR --commit abc1234 --machine "2 cores, AVX2"

Experiments run one after the other, each in its own directory below outputs/results. One is
skipped where docs/results.json has its results with the cache keys of today, so a killed run
continues with the next experiment; models that are trained already are found in the artifact
store. The page can be written again without a run.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ivqa.device import fastest_dtype
from ivqa.errors import UserError
from ivqa.provenance import FILE as PROVENANCE
from ivqa.provenance import commit_of, versions
from ivqa.runs.run_directory import read_metrics
from ivqa.store.files import read_json, read_yaml, write_json, write_text
from ivqa.sweeps.multirun import distinguishing
from ivqa.terminal import terminal
from tools.claims import all_records
from tools.experiments import Experiment, Project, Record
from tools.result_keys import Keys, combined, keys_of
from tools.result_plots import write_plot
from tools.results_page import results_page

# Of these a setting is called by its value alone: "mlb" for "model=mlb".
_KNOWN_GROUPS = ("model", "vqa", "reward", "ranker")
# Folders of the commands that run before the others.
_BEFORE = ("first", "baseline")
_KEYS = "keys.json"  # in the directory of a finished experiment
# What a run reads. The texts of conf/results.yaml change no number.
_CODE = ("src", "conf", "train.py", "evaluate.py", "diagnose.py", ":!conf/results.yaml")


def main(arguments: Sequence[str] | None = None, root: Path | None = None) -> None:
    """Runs, imports, or writes the page, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="experiments; all where none is named")
    parser.add_argument("--page", action="store_true", help="write the page only")
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="run with uncommitted changes, without keeping what is measured",
    )
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
            project.keep(name, imported(Path(directory), known[name], options))
        keys = keys_of_experiments(project)
        if not wanted and not options.page:
            changed = uncommitted(project.root)
            if changed and not options.allow_changes:
                raise UserError(
                    f"{changed} has uncommitted changes, so nobody could run the results again; "
                    "commit them, or try the experiments with --allow-changes, which keeps nothing"
                )
            chosen = _with_read(options.names or known, known)
            failed = [
                one.name for one in chosen if not obtain(project, one, keys, kept=not changed)
            ]
        write_page(project, keys)
    except UserError as error:
        sys.exit(f"error: {error}")
    if failed:
        sys.exit(f"error: failed, see its log in outputs/results: {', '.join(failed)}")


def imported(directory: Path, experiment: Experiment, options: argparse.Namespace) -> Record:
    """The record of an experiment that ran elsewhere; its directory holds the keys."""
    file = directory / _KEYS
    return Record(
        options.commit,
        options.machine or this_machine(),
        options.seconds,
        measured(directory, experiment),
        seeds=seeds_of(jobs_in(directory)),
        **(read_json(file, dict) if file.is_file() else {}),
    )


def keys_of_experiments(project: Project) -> dict[str, Keys]:
    """The cache keys of today, by experiment, including those of the experiments that it reads."""
    found: dict[str, Keys] = {}
    for name, experiment in project.experiments().items():
        # No file is read for a key: trained encoders have the keys of their own command.
        texts = [one.replace("{dir}", name) for one in experiment.commands]
        commands = [shlex.split(one.replace("{results}", "results")) for one in texts]
        read = {other: found[other] for other in experiment.read_experiments}
        found[name] = combined(keys_of(commands, project.conf), read)
    return found


def obtain(
    project: Project, experiment: Experiment, keys: Mapping[str, Keys], *, kept: bool = True
) -> bool:
    """Runs an experiment unless its results are up to date, and keeps what it measured.

    Args:
        project: The project.
        experiment: The experiment.
        keys: The keys of all experiments.
        kept: Whether to write what was measured into docs/results.json and the page.

    Returns:
        False where the command or one of its jobs failed; the log is beside its directory.
    """
    console = terminal()
    if missing := [name for name in experiment.needs if not os.environ.get(name)]:
        console.print(f"{experiment.name}: skipped, {' and '.join(missing)} is not set")
        return True
    directory, own = project.runs / experiment.name, keys[experiment.name]
    if _is_done(project, experiment, own):
        console.print(f"{experiment.name}: up to date")
        return True
    # Jobs of an earlier command would count as jobs of this one; trained models are in the store.
    shutil.rmtree(directory, ignore_errors=True)
    start, began = time.monotonic(), time.time()
    commands = (experiment.first, experiment.baseline)
    places = {one: directory / name for one, name in zip(commands, _BEFORE, strict=True)}
    for command in experiment.commands:
        console.print(f"{experiment.name}: python {command}", soft_wrap=True)
        if not _run(project, command, directory, places.get(command, directory)):
            return False
    jobs = jobs_in(directory)
    if not all(job["metrics"] for job in jobs):
        return False
    write_json(directory / _KEYS, asdict(own))
    record = Record(
        commit_of(project.root).removesuffix("+"),  # docs/ changes while experiments run
        this_machine(),
        time.monotonic() - start,
        measured(directory, experiment),
        versions(),
        seeds_of(jobs),
        stored_training(directory.rglob(PROVENANCE), began),
        own.keys,
        own.code,
    )
    if kept:
        project.keep(experiment.name, record)
        write_page(project, keys)
    return True


def stored_training(files: Iterable[Path], began: float) -> float:
    """Seconds that the training of models had taken that had ended before some runs began.

    Args:
        files: The provenance.json of each run.
        began: When the first run began, in seconds since 1970.
    """
    trained: dict[str, Sequence[float]] = {}
    for file in files:
        trained |= read_json(file, dict).get("training", {})
    return sum(seconds for seconds, ended in trained.values() if ended < began)


def jobs_in(directory: Path) -> list[dict[str, Any]]:
    """The jobs of a finished multirun, or of a single run: {"overrides", "metrics"}.

    Raises:
        UserError: Nothing has finished there.
    """
    if (directory / "results.json").is_file():
        jobs = read_json(directory / "results.json", list)
        # The table of a sweep has every run in its folder.
        return [job for job in jobs if Path(job.get("directory", "")).name not in _BEFORE]
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
    wanted |= set(experiment.also)
    settings: dict[str, list[dict[str, float]]] = {}
    for name, job in zip(names, jobs, strict=True):
        kept = {key: value for key, value in job["metrics"].items() if key in wanted}
        settings.setdefault(_label(name), []).append(kept)
    found = {key for seeds in settings.values() for one in seeds for key in one}
    if absent := {spec[0] for spec in experiment.metrics.values()} - found:
        raise UserError(f"{experiment.name}: no job measured {', '.join(sorted(absent))}")
    return settings


def write_page(project: Project, keys: Mapping[str, Keys]) -> None:
    """Writes docs/results.md and its plots from docs/results.json."""
    sections, records = project.sections(), all_records(project.root)
    for name, experiment in project.experiments().items():
        if name in records and experiment.plot:
            write_plot(project.plots / f"{name}.svg", experiment, records[name])
    page = results_page(sections, records, keys)
    write_text(project.root / "docs" / "results.md", page)


def uncommitted(root: Path) -> str:
    """The first file of the code or of the configuration that git would commit; "" for none."""
    command = ["git", "status", "--porcelain", "--", *_CODE]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{root} is no git repository, so its results would have no commit")
    return done.stdout.splitlines()[0][3:] if done.stdout else ""


def _with_read(names: Iterable[str], known: Mapping[str, Experiment]) -> list[Experiment]:
    """The named experiments and those whose results they read, in the order of the page."""
    wanted = set(names)
    for one in reversed(list(known.values())):  # a read experiment comes before its reader
        wanted |= set(one.read_experiments) if one.name in wanted else set()
    return [one for name, one in known.items() if name in wanted]


def _is_done(project: Project, experiment: Experiment, keys: Keys) -> bool:
    """Whether the record is up to date and, where others read them, the results are here."""
    record = project.records().get(experiment.name)
    if record is None or record.changes(experiment, keys):
        return False
    if all(experiment.name not in one.read_experiments for one in project.experiments().values()):
        return True
    file = project.runs / experiment.name / _KEYS
    return file.is_file() and read_json(file, dict)["keys"] == dict(keys.keys)


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


def _run(project: Project, command: str, own: Path, directory: Path) -> bool:
    """Runs a command with `directory` as its output_dir.

    $NAME, {results} and {dir}, the directory `own` of the experiment, are filled in.
    """
    directory.mkdir(parents=True, exist_ok=True)
    words = [os.path.expandvars(word) for word in shlex.split(command)]
    places = {"{dir}": str(own), "{results}": str(project.runs)}
    for name, place in places.items():
        words = [word.replace(name, place) for word in words]
    with (directory / "log.txt").open("w") as log:
        done = subprocess.run(
            [sys.executable, *words, f"output_dir={directory}"],
            cwd=project.root,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode == 0


def this_machine() -> str:
    """Cores, the widest vectors, and whether models are trained in bfloat16."""
    able = torch.backends.cpu.get_cpu_capability()
    precision = "bfloat16" if fastest_dtype() is torch.bfloat16 else "float32"
    return f"{os.cpu_count()} cores with {able}, {precision}"


def seeds_of(jobs: Sequence[Mapping[str, Any]]) -> list[int]:
    """The seeds of jobs, ascending; 1 is the default of conf/run.yaml.

    >>> seeds_of([{"overrides": ["model=mlb", "seed=3"]}, {"overrides": ["model=mlb"]}])
    [1, 3]
    """
    chosen = [
        [str(item).removeprefix("seed=") for item in job["overrides"] if str(item)[:5] == "seed="]
        for job in jobs
    ]
    return sorted({int(seeds[-1]) if seeds else 1 for seeds in chosen})


if __name__ == "__main__":
    main()
