"""Plots of the page of results as SVG files, which are the same for the same records."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from ivqa.store.digests import digest
from ivqa.store.files import atomic_write
from tools.experiments import Experiment, Record

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colours that people with colour blindness tell apart (Okabe and Ito).
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#000000")
_STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "svg.hashsalt": "ivqa",  # ids in the file are random without it
    "svg.fonttype": "none",
}
_WIDTH = 7.5  # inches; 540 points on a page
_BESIDE = 3  # plots of bars in a row


def write_plot(path: Path, experiment: Experiment, record: Record) -> None:
    """Draws the plot of an experiment.

    The file is written only where the figures changed, so that another version of matplotlib
    changes no file.

    Args:
        path: The SVG file.
        experiment: The experiment, with `plot`.
        record: What it measured.
    """
    mark = mark_of(experiment, record)
    if path.is_file() and mark in path.read_text():
        return
    ((kind, headings),) = experiment.plot.items()
    with plt.rc_context(_STYLE):
        draw = {"curve": _curves, "bars": _bars}[kind]
        figure = draw(experiment, experiment.shown(record.settings), headings)
        with atomic_write(path) as draft:
            figure.savefig(draft, format="svg", metadata={"Date": None, "Description": mark})
        plt.close(figure)


def mark_of(experiment: Experiment, record: Record) -> str:
    """A digest of all that a plot shows, which its file contains."""
    headings = next(iter(experiment.plot.values()))
    shown = experiment.shown(record.settings)
    specs = [experiment.metrics[heading] for heading in headings]
    values = {name: [_figures(spec, seeds) for spec in specs] for name, seeds in shown.items()}
    return f"figures {digest([dict(experiment.plot), specs, dict(experiment.names), values])}"


def _curves(
    experiment: Experiment,
    shown: Mapping[str, Sequence[Mapping[str, float]]],
    headings: Sequence[str],
) -> Figure:
    """One line for each setting over the headings, such as levels of noise, with its interval."""
    figure, axes = plt.subplots(figsize=(_WIDTH, 3.2), layout="constrained")
    for number, (name, seeds) in enumerate(shown.items()):
        figures = [_figures(experiment.metrics[heading], seeds) for heading in headings]
        places = [place for place, one in enumerate(figures) if one is not None]
        means, lows, highs = zip(*(one for one in figures if one is not None), strict=True)
        color = _COLORS[number % len(_COLORS)]
        style = "-" if number < len(_COLORS) else "--"
        label = experiment.names.get(name, name)
        axes.plot(places, means, style, marker="o", markersize=3, color=color, label=label)
        if len(shown) <= _BESIDE:  # more bands would hide each other
            axes.fill_between(places, lows, highs, color=color, alpha=0.15, linewidth=0)
    axes.set_xticks(range(len(headings)), headings)
    axes.set_ylabel("percent" if _is_share(experiment, headings[0]) else headings[0])
    axes.grid(axis="y", alpha=0.3)
    figure.legend(frameon=False, loc="outside right upper")
    return figure


def _bars(
    experiment: Experiment,
    shown: Mapping[str, Sequence[Mapping[str, float]]],
    headings: Sequence[str],
) -> Figure:
    """One plot for each heading: a bar for each setting, with its interval."""
    columns = min(len(headings), _BESIDE)
    rows = -(-len(headings) // columns)
    size = (_WIDTH, rows * (0.7 + 0.22 * len(shown)))
    figure, grid = plt.subplots(
        rows, columns, figsize=size, layout="constrained", sharey=True, squeeze=False
    )
    places: list[Axes] = list(grid.flat)
    for axes in places[len(headings) :]:
        axes.set_visible(False)
    labels = [experiment.names.get(name, name) for name in shown]
    for axes, heading in zip(places, headings, strict=False):
        for place, seeds in enumerate(shown.values()):
            if (one := _figures(experiment.metrics[heading], seeds)) is not None:
                mean, low, high = one
                axes.barh(place, mean, color=_COLORS[0], alpha=0.75, height=0.7)
                axes.plot([low, high], [place, place], color="black", linewidth=1)
        unit = ", percent" if _is_share(experiment, heading) and "percent" not in heading else ""
        axes.set_title(_wrapped(heading + unit), fontsize=9)
        axes.set_yticks(range(len(labels)), labels)
        axes.grid(axis="x", alpha=0.3)
    places[0].invert_yaxis()
    return figure


def _figures(
    spec: Sequence[str], seeds: Sequence[Mapping[str, float]]
) -> tuple[float, float, float] | None:
    """Mean, low and high end, in percent for shares; None where the setting lacks the metric.

    The ends are the mean and the standard deviation over seeds; for one seed its interval, if it
    has one.
    """
    metric, factor = spec[0], 100 if spec[1].endswith("%") else 1
    values = np.asarray([one[metric] for one in seeds if metric in one], np.float64) * factor
    if not len(values):
        return None
    mean = float(values.mean())
    if len(values) > 1:
        deviation = float(values.std(ddof=1))
        return mean, mean - deviation, mean + deviation
    low, high = (seeds[0].get(f"{metric}_{end}", values[0] / factor) for end in ("low", "high"))
    return mean, low * factor, high * factor


def _is_share(experiment: Experiment, heading: str) -> bool:
    return experiment.metrics[heading][1].endswith("%")


def _wrapped(heading: str) -> str:
    """A heading in two lines where it is long."""
    words, lines = heading.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > 26:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
