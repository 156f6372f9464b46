"""The experiments of conf/results.yaml and the records of docs/results.json."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ivqa.errors import UserError
from ivqa.store.files import read_json, read_yaml, write_json
from tools.result_keys import Keys


@dataclass(frozen=True)
class Experiment:
    """One command and the table that its results become.

    A command may name {dir}, the directory of the experiment, and {results}/NAME, that of another
    experiment, which then runs first.

    Args:
        name: The key in conf/results.yaml; the directory below outputs/results.
        command: What is run, without `python`, such as "evaluate.py -m experiment=table_models".
        metrics: Heading of a table: [metric, format]. The format is Python's; those that end in
            "%" show a fraction as percent, without the sign. A third item, "interval", adds
            METRIC_low and METRIC_high.
        settings_are: "columns" where each setting of the sweep gets a column, or "rows".
        columns: {word of a setting: heading}: a table for each metric, with a row for what else
            tells the settings apart.
        sort: Metric by whose mean the settings are sorted; None keeps the order of the sweep.
        names: Settings as the table calls them, where that is not their value.
        shared_rows: {name: {prefix: other prefix}}: a setting more, measured in every run. It has
            the first setting's metrics with the other prefix.
        first: A command that must run before, such as the training of an encoder.
        baseline: A command whose settings come first in the table, such as a model that is trained
            with the same dropout but without the image.
        needs: Environment variables that name folders of data; skipped where one is not set.
        also: Metrics that a text names and the table lacks.
        plot: {"curve": headings} draws one line for each setting, {"bars": headings} one plot for
            each heading with one bar for each setting.
        before: Text above the table.
        after: Text below the table. In both, and in the text of a section,
            {{experiment|setting|metric}:format} shows what was measured; see tools.claims.
    """

    name: str
    command: str
    metrics: Mapping[str, Sequence[str]]
    settings_are: str = "rows"
    columns: Mapping[str, str] = field(default_factory=dict)
    sort: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    shared_rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    first: str | None = None
    baseline: str | None = None
    needs: Sequence[str] = ()
    also: Sequence[str] = ()
    plot: Mapping[str, Sequence[str]] = field(default_factory=dict)
    before: str = ""
    after: str = ""

    @property
    def commands(self) -> list[str]:
        """The commands in the order in which they run."""
        return [one for one in (self.first, self.baseline, self.command) if one is not None]

    @property
    def read_experiments(self) -> list[str]:
        """The experiments whose directories the commands name."""
        return list(dict.fromkeys(re.findall(r"\{results\}/(\w+)", " ".join(self.commands))))

    def shown(self, settings: Mapping[str, Any]) -> dict[str, list[dict[str, float]]]:
        """The metrics of the settings in the order of the table, with the shared rows."""
        found = {name: [dict(one) for one in seeds] for name, seeds in settings.items()}
        for name, prefixes in self.shared_rows.items():
            first = next(iter(settings.values()))
            found = {name: [_renamed(one, prefixes) for one in first], **found}
        if (metric := self.sort) is not None:
            means = {
                name: sum(one[metric] for one in seeds) / len(seeds)
                for name, seeds in found.items()
            }
            found = {name: found[name] for name in sorted(found, key=means.__getitem__)}
        return found


@dataclass(frozen=True)
class Record:
    """What one experiment measured.

    Args:
        commit: Of the code that ran.
        machine: Kind of processor and number of cores.
        seconds: Of the command; 0 where nobody measured it.
        settings: Metrics of every seed, by setting, in the order of the sweep.
        versions: Of Python and of the packages that compute the numbers; "" if not recorded.
        seeds: Of the runs, ascending; empty if not recorded.
        stored_training: Seconds that the training of the models had taken that the command found
            in the artifact store.
        keys: What the results depend on: `Keys.keys`; empty if not recorded.
        code: `Keys.code`.
    """

    commit: str
    machine: str
    seconds: float
    settings: Mapping[str, Sequence[Mapping[str, float]]]
    versions: str = ""
    seeds: Sequence[int] = ()
    stored_training: float = 0.0
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    code: Mapping[str, int | str] = field(default_factory=dict)

    def changes(self, experiment: Experiment, now: Keys | None) -> list[str]:
        """Why the table is out of date; empty where it is not.

        Args:
            experiment: The experiment.
            now: Its keys of today; None where nobody computed them.
        """
        if self.commit.endswith("+"):
            return ["it was measured by code with uncommitted changes"]
        found = {name for seeds in self.settings.values() for one in seeds for name in one}
        absent = {spec[0] for spec in experiment.metrics.values()} - found
        texts = [f"`{name}` was not recorded" for name in sorted(absent)]
        return texts + (Keys(self.keys, self.code).changes(now) if now is not None else [])


Section = tuple[str, str, list[Experiment]]
"""Title, text and experiments of a section of the page."""


@dataclass(frozen=True)
class Project:
    """Where the runner finds and writes its files.

    Args:
        root: The checkout, which holds evaluate.py and conf/.
    """

    root: Path

    @property
    def conf(self) -> Path:
        """The folder of configuration files."""
        return self.root / "conf"

    @property
    def runs(self) -> Path:
        """One directory an experiment."""
        return self.root / "outputs" / "results"

    @property
    def plots(self) -> Path:
        """The plots of the page."""
        return self.root / "docs" / "results"

    def sections(self) -> list[Section]:
        """The sections of the page."""
        found = read_yaml(self.conf / "results.yaml", list)
        return [
            (
                part["title"],
                part.get("text", ""),
                [Experiment(**one) for one in part["experiments"]],
            )
            for part in found
        ]

    def experiments(self) -> dict[str, Experiment]:
        """All experiments by name.

        Raises:
            UserError: An experiment reads the results of another one that does not come before it.
        """
        found: dict[str, Experiment] = {}
        for one in (one for _, _, part in self.sections() for one in part):
            if unknown := set(one.read_experiments) - found.keys():
                raise UserError(
                    f"conf/results.yaml: {one.name} reads the results of '{min(unknown)}', which "
                    "must come before it"
                )
            found[one.name] = one
        return found

    def records(self) -> dict[str, Record]:
        """What was measured, by experiment."""
        file = self._file
        stored = read_json(file, dict) if file.is_file() else {}
        return {name: Record(**values) for name, values in stored.items()}

    def keep(self, name: str, record: Record) -> None:
        """Stores what an experiment measured in docs/results.json.

        Raises:
            UserError: The code that measured it had uncommitted changes.
        """
        if record.commit.endswith("+"):
            raise UserError(
                f"{name}: commit {record.commit} has uncommitted changes, so nobody can run it "
                "again; commit them, and measure again"
            )
        stored = {key: asdict(one) for key, one in self.records().items()}
        write_json(self._file, stored | {name: asdict(record)})

    @property
    def _file(self) -> Path:
        return self.root / "docs" / "results.json"


def _renamed(metrics: Mapping[str, float], prefixes: Mapping[str, str]) -> dict[str, float]:
    """The metrics that start with one of the other prefixes, under the first prefix."""
    return {
        prefix + name.removeprefix(other): value
        for prefix, other in prefixes.items()
        for name, value in metrics.items()
        if name.startswith(other)
    }
