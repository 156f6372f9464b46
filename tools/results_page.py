"""The page of results, docs/results.md: tables of experiments, with commands and machines."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from tools.claims import filled
from tools.experiments import Experiment, Record, Section
from tools.result_keys import Keys


def results_page(
    sections: Sequence[Section],
    records: Mapping[str, Record],
    keys: Mapping[str, Keys] | None = None,
) -> str:
    """The page in Markdown.

    Args:
        sections: Title, text and experiments of each section.
        records: What was measured, by the name of the experiment. An experiment without a record
            is named at the end.
        keys: The keys of today, by the name of the experiment.
    """
    parts = [
        "# Results",
        "`make results` runs every command below and writes this page. Each table names the "
        "commit, the machine and the duration of its own run, with the training that it did "
        "itself; models that were trained before come from the artifact store. A table that "
        "today's code would not measure again says so. ± is the standard deviation over seeds; "
        "brackets are 95 percent bootstrap intervals.",
    ]
    read = {name for _, _, part in sections for one in part for name in one.read_experiments}
    for title, text, experiments in sections:
        shown = [one for one in experiments if one.name in records]
        if shown:
            parts += [f"## {title}", *_paragraphs(filled(text, records))]
        for experiment in shown:
            record = records[experiment.name]
            changes = record.changes(experiment, (keys or {}).get(experiment.name))
            parts += _experiment(experiment, records, changes, experiment.name in read)
    absent = [one for _, _, part in sections for one in part if one.name not in records]
    if absent:
        parts += ["## Not measured", "\n".join(map(_absent, absent))]
    return "\n\n".join(parts) + "\n"


def result_table(experiment: Experiment, settings: Mapping[str, Any]) -> str:
    """The table of one experiment in Markdown, without the lines around it."""
    shown = experiment.shown(settings)
    if experiment.columns:
        metrics = experiment.metrics.items()
        return "\n\n".join(_crossed(experiment, shown, *metric) for metric in metrics)
    headings = list(experiment.metrics)
    cells = {
        name: [_cell(experiment.metrics[heading], seeds) for heading in headings]
        for name, seeds in shown.items()
    }
    labels = [experiment.names.get(name, name) for name in shown]
    if experiment.settings_are == "columns":
        rows = [
            [heading, *(cells[name][at] for name in shown)] for at, heading in enumerate(headings)
        ]
        return _markdown(["", *labels], rows)
    rows = [[label, *cells[name]] for label, name in zip(labels, shown, strict=True)]
    return _markdown(["", *headings], rows)


def _crossed(
    experiment: Experiment,
    shown: Mapping[str, Sequence[Mapping[str, float]]],
    heading: str,
    spec: Sequence[str],
) -> str:
    """One metric of settings such as "mlb bleu1", with columns such as "bleu1"."""
    rows: dict[str, dict[str, str]] = {}
    for name, seeds in shown.items():
        words = name.split()
        column = next(word for word in words if word in experiment.columns)
        words.remove(column)
        rows.setdefault(" ".join(words), {})[column] = _cell(spec, seeds)
    return _markdown(
        [heading, *experiment.columns.values()],
        [
            [experiment.names.get(row, row), *(cells.get(at, "-") for at in experiment.columns)]
            for row, cells in rows.items()
        ],
    )


def _experiment(
    experiment: Experiment, records: Mapping[str, Record], changes: Sequence[str], is_read: bool
) -> list[str]:
    directory, record = f"outputs/results/{experiment.name}", records[experiment.name]
    commands = experiment.commands
    if experiment.first is not None:
        commands[0] += f" output_dir={directory}/first"
    if is_read:
        commands[-1] += f" output_dir={directory}"
    written = [
        one.replace("{dir}", directory).replace("{results}", "outputs/results") for one in commands
    ]
    code = "\n".join(_folded(f"python {one}") for one in written)
    parts = [*_paragraphs(filled(experiment.before, records)), f"```bash\n{code}\n```"]
    numbers = ", ".join(map(str, record.seeds))
    made_by = [
        f"Commit {record.commit}",
        record.machine,
        record.versions,
        f"seed{'s' if len(record.seeds) > 1 else ''} {numbers}" if numbers else "",
        _duration(record),
    ]
    parts.append(", ".join(filter(None, made_by)) + ".")
    if changes:
        parts.append(f"**Out of date**: {'; '.join(changes)}.")
    parts.append(result_table(experiment, record.settings))
    if experiment.plot:
        what = " and ".join(experiment.plot)
        parts.append(f"![{experiment.name}: {what}](results/{experiment.name}.svg)")
    return [*parts, *_paragraphs(filled(experiment.after, records))]


def _duration(record: Record) -> str:
    """How long the run took, and how long the training of what it found had taken."""
    texts = [f"{record.seconds:,.0f} s"] if record.seconds else []
    if record.stored_training:
        texts.append(f"{record.stored_training:,.0f} s before to train the models")
    return " and ".join(texts)


def _absent(experiment: Experiment) -> str:
    where = " and ".join(f"`{name}`" for name in experiment.needs)
    needs = f"; it needs data: set {where}" if where else ""
    return f"- {experiment.name}{needs}"


def _folded(command: str) -> str:
    """The command over several lines of a shell, where it is long."""
    lines = wrap(command, 92, break_long_words=False, break_on_hyphens=False)
    return " \\\n    ".join(lines)


def _paragraphs(text: str) -> list[str]:
    return [text.strip()] if text.strip() else []


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
