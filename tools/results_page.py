"""The page of results, docs/results.md: tables of experiments, with commands and machines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Experiment:
    """One command and the table that its results become.

    Args:
        name: The key in conf/results.yaml; the directory below outputs/results.
        command: What is run, without `python`, such as "evaluate.py -m experiment=table_models".
        metrics: Heading of a table: [metric, format]. The format is Python's; those that end in
            "%" show a fraction as percent, without the sign. A third item, "interval", adds
            METRIC_low and METRIC_high.
        settings_are: "columns" where each setting of the sweep gets a column, or "rows".
        sort: Metric by whose mean the settings are sorted; None keeps the order of the sweep.
        names: Settings as the table calls them, where that is not their value.
        shared_rows: {name: {prefix: other prefix}}: a setting more, measured in every run. It has
            the first setting's metrics with the other prefix.
        first: A command that must run before, such as the training of an encoder.
        baseline: A command whose settings come first in the table, such as a model that is trained
            with the same dropout but without the image.
        needs: Environment variables that name folders of data; skipped where one is not set.
        before: Text above the table.
        after: Text below the table.
    """

    name: str
    command: str
    metrics: Mapping[str, Sequence[str]]
    settings_are: str = "rows"
    sort: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    shared_rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    first: str | None = None
    baseline: str | None = None
    needs: Sequence[str] = ()
    before: str = ""
    after: str = ""


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
    """

    commit: str
    machine: str
    seconds: float
    settings: Mapping[str, Sequence[Mapping[str, float]]]
    versions: str = ""
    seeds: Sequence[int] = ()


def results_page(
    sections: Sequence[tuple[str, str, Sequence[Experiment]]], records: Mapping[str, Record]
) -> str:
    """The page in Markdown.

    Args:
        sections: Title, text and experiments of each section.
        records: What was measured, by the name of the experiment. An experiment without a record
            is listed with its command.
    """
    parts = [
        "# Results",
        "`make results` runs every command below and writes this page. Each table names the "
        "commit and the machine of its own run, and the duration where it was recorded; `+` after "
        "a commit marks uncommitted changes. ± is the standard deviation over seeds; brackets are "
        "95 percent bootstrap intervals.",
    ]
    for title, text, experiments in sections:
        parts += [f"## {title}", *_paragraphs(text)]
        for experiment in experiments:
            parts += _experiment(experiment, records.get(experiment.name))
    return "\n\n".join(parts) + "\n"


def result_table(experiment: Experiment, settings: Mapping[str, Any]) -> str:
    """The table of one experiment in Markdown, without the lines around it."""
    shown = dict(settings)
    for name, prefixes in experiment.shared_rows.items():
        shown = {name: [_renamed(one, prefixes) for one in next(iter(settings.values()))], **shown}
    order = list(shown)
    if experiment.sort is not None:
        metric = experiment.sort
        order.sort(key=lambda name: float(np.mean([one[metric] for one in shown[name]])))
    headings = list(experiment.metrics)
    cells = {
        name: [_cell(experiment.metrics[heading], shown[name]) for heading in headings]
        for name in order
    }
    labels = [experiment.names.get(name, name) for name in order]
    if experiment.settings_are == "columns":
        rows = [
            [heading, *(cells[name][at] for name in order)] for at, heading in enumerate(headings)
        ]
        return _markdown(["", *labels], rows)
    rows = [[label, *cells[name]] for label, name in zip(labels, order, strict=True)]
    return _markdown(["", *headings], rows)


def _experiment(experiment: Experiment, record: Record | None) -> list[str]:
    directory = f"outputs/results/{experiment.name}"
    first = f"{experiment.first} output_dir={directory}/first" if experiment.first else None
    commands = filter(None, (first, experiment.baseline, experiment.command))
    code = "\n".join(_folded(f"python {one.replace('{dir}', directory)}") for one in commands)
    parts = [*_paragraphs(experiment.before), f"```\n{code}\n```"]
    if record is None:
        where = " and ".join(f"`{name}`" for name in experiment.needs)
        needs = f" It needs data: set {where}." if where else ""
        return [*parts, f"Not measured yet.{needs}"]
    numbers = ", ".join(map(str, record.seeds))
    made_by = [
        f"Commit {record.commit}",
        record.machine,
        record.versions,
        f"seed{'s' if len(record.seeds) > 1 else ''} {numbers}" if numbers else "",
        f"{record.seconds:,.0f} s" if record.seconds else "",
    ]
    parts.append(", ".join(filter(None, made_by)) + ".")
    return [*parts, result_table(experiment, record.settings), *_paragraphs(experiment.after)]


def _folded(command: str) -> str:
    """The command over several lines of a shell, where it is long."""
    lines = wrap(command, 92, break_long_words=False, break_on_hyphens=False)
    return " \\\n    ".join(lines)


def _paragraphs(text: str) -> list[str]:
    return [text.strip()] if text.strip() else []


def _renamed(metrics: Mapping[str, float], prefixes: Mapping[str, str]) -> dict[str, float]:
    """The metrics that start with one of the other prefixes, under the first prefix."""
    return {
        prefix + name.removeprefix(other): value
        for prefix, other in prefixes.items()
        for name, value in metrics.items()
        if name.startswith(other)
    }


def _cell(spec: Sequence[str], seeds: Sequence[Mapping[str, float]]) -> str:
    metric, style = spec[0], spec[1]
    values = [one[metric] for one in seeds if metric in one]
    if not values:
        return "-"
    text = _number(float(np.mean(values)), style)
    if len(values) > 1:
        return f"{text} ± {_number(float(np.std(values, ddof=1)), style)}"
    if "interval" in spec[2:] and f"{metric}_low" in seeds[0]:
        low, high = (_number(seeds[0][f"{metric}_{end}"], style) for end in ("low", "high"))
        return f"{text} [{low}, {high}]"
    return text


def _number(value: float, style: str) -> str:
    return format(value, style).removesuffix("%")


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *(["---:"] * (len(header) - 1))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
