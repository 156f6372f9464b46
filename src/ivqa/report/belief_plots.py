"""Plots of the belief page as SVG: confidences, rewards of the policy, accuracy under noise."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.plots import accuracies

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def read_curves(file: Path) -> dict[str, list[tuple[int, float]]]:
    """Reads the validation rewards of a policy from metrics.csv, which need not exist.

    Returns:
        Points (step, value) by name of the reward, for curves of at least two points.
    """
    if not file.is_file():
        return {}
    curves: dict[str, list[tuple[int, float]]] = {}
    with file.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            for name, value in row.items():
                point = _point(row.get("step"), value)
                if name and name.startswith("val/") and point:
                    curves.setdefault(name.removeprefix("val/"), []).append(point)
    shown = ("reward", "goal", "legality", "diversity")
    return {name: curves[name] for name in shown if len(curves.get(name, ())) > 1}


def _point(step: str | None, value: str | None) -> tuple[int, float] | None:
    """A point of a curve; None for an empty cell or a truncated row."""
    try:
        return int(step or ""), float(value or "")
    except (TypeError, ValueError):
        return None


def belief_plots(
    models: Sequence[BeliefPageModel], curves: Mapping[str, Sequence[tuple[int, float]]]
) -> list[str]:
    """Plots the confidences of beliefs, the rewards of the policy, and the accuracy under noise.

    Returns:
        SVG elements; those without data are left out.
    """
    plots = []
    with plt.rc_context(
        {
            "svg.fonttype": "path",  # the page has no font files
            "figure.figsize": (4.2, 2.7),
            "font.size": 10,
            "legend.frameon": False,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    ):
        figure, axes = plt.subplots()
        axes.hist(
            [[belief.phi for belief in model.beliefs] for model in models],
            bins=20,
            range=(0, 1),
            label=[model.name for model in models],
        )
        axes.set(xlabel="confidence of a belief, phi(a | I, q)", ylabel="beliefs")
        if len(models) > 1:
            axes.legend()
        plots.append(svg(figure))
        if curves:
            figure, axes = plt.subplots()
            for name, points in curves.items():
                axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
            axes.set(xlabel="policy gradient step", ylabel="mean over samples", ylim=(0, 1.02))
            # The curves fill the whole height, so the legend does not fit inside.
            axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4)
            plots.append(svg(figure))
        noisy = {model.name: accuracies(model.metrics) for model in models}
        if any(noisy.values()):
            figure, axes = plt.subplots()
            for name, means in noisy.items():
                axes.plot(range(len(means)), means, marker="o", markersize=3, label=name)
            axes.set(xlabel="level of noise", ylabel="accuracy", ylim=(0, 1))
            if len(models) > 1:
                axes.legend(fontsize=8)
            plots.append(svg(figure))
    return plots


def svg(figure: Any) -> str:
    """An SVG element without date and random ids: equal figures are equal. Closes the figure."""
    text = io.StringIO()
    with plt.rc_context({"svg.hashsalt": "ivqa"}):
        figure.savefig(text, format="svg", bbox_inches="tight", transparent=True)
    plt.close(figure)
    drawing = text.getvalue()[text.getvalue().index("<svg") :]
    # The metadata contain the date.
    return re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
