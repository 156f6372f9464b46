"""Plots as PNG: accuracy under noise, shares, and the objective of a sweep."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd

from ivqa.report.charts import accuracies
from ivqa.store.files import atomic_write

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

_MAX_BANDS = 3  # with more curves their bands overlap
_COLUMNS = 3  # plots of a sweep beside each other
# Colours that people with colour blindness tell apart (Okabe and Ito); correct ones are green.
_COLORS = ("#009E73", "#56B4E9", "#E69F00", "#CC79A7", "#999999", "#0072B2", "#D55E00")
_PLAIN: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False}


def write_noise_curve(path: Path, models: Mapping[str, Mapping[str, float]]) -> None:
    """Plots robustness/partition_K/accuracy of each model against the level K, and what it loses.

    The second plot shows the accuracy without noise minus that of the level. Bands show the 95
    percent intervals, accuracy_low to accuracy_high. More than three curves are drawn without
    bands, and the axis shows the range of the data instead of 0 to 1.

    Args:
        models: Metrics of each model, by the name in the legend.
    """
    many = len(models) > _MAX_BANDS
    with plt.rc_context({**_PLAIN, "font.size": 11}):
        figure, (axes, losses) = plt.subplots(1, 2, figsize=(11, 4.0), layout="constrained")
        for name, metrics in models.items():
            means = accuracies(metrics)
            score, label = metrics.get("robustness/r_score"), name
            if score is not None:
                blind = ", not above blind" * bool(metrics.get("robustness/below_blind"))
                lost = f"{100 * (means[0] - means[1]):.1f} points{blind}"
                label = f"{name}, R_score {score:.2f} ({lost})"
            (line,) = axes.plot(range(len(means)), means, marker="o", label=label)
            low, high = (accuracies(metrics, f"accuracy_{end}") for end in ("low", "high"))
            falls = [means[0] - mean for mean in means]
            losses.plot(range(len(falls)), falls, marker="o", color=line.get_color())
            if low and not many:
                axes.fill_between(range(len(low)), low, high, color=line.get_color(), alpha=0.15)
        axes.set(xlabel="level of noise", ylabel="accuracy", title="Accuracy under noise")
        losses.set(xlabel="level of noise", ylabel="clean - noisy", title="Accuracy lost")
        for plot in (axes, losses):
            plot.grid(axis="y", alpha=0.3)
        if many:
            figure.legend(frameon=False, loc="outside right upper")
        else:
            axes.set_ylim(0, 1)
            axes.legend(frameon=False)
        _save(path, figure)


def write_shares(path: Path, shares: pd.DataFrame) -> None:
    """Draws a stacked bar for each row; each column of shares in [0, 1] is one part of the bars."""
    figure, axes = plt.subplots(figsize=(7, 1 + 0.45 * len(shares)))
    left = pd.Series(0.0, index=shares.index)
    for name, color in zip(shares.columns, _COLORS, strict=False):
        widths = shares[name]
        axes.barh(shares.index.tolist(), widths, left=left, color=color, label=name)
        for row, width in enumerate(widths):
            if width >= 0.06:  # narrower parts have no room for a number
                place = left.iloc[row] + width / 2
                axes.text(place, row, f"{width:.0%}", ha="center", va="center", fontsize=8)
        left = left + widths
    axes.set(xlim=(0, 1), xlabel="share of the pools")
    axes.invert_yaxis()
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(shares.columns), frameon=False
    )
    _save(path, figure)


def write_sweep_plot(path: Path, rows: Sequence[Mapping[str, Any]], metric: str) -> None:
    """Draws one plot for each parameter, with one dot for each point and the best one marked.

    Numbers that spread over two powers of ten have a logarithmic axis; texts and switches are
    drawn side by side.

    Args:
        rows: The number, the objective and the parameters of each point, the best point first.
    """
    objective, names = [row[metric] for row in rows], list(rows[0])[2:]
    columns = min(len(names), _COLUMNS)
    size = (4 * columns, 3 * math.ceil(len(names) / columns))
    with plt.rc_context(_PLAIN):
        figure = plt.figure(figsize=size, layout="constrained")
        for place, name in enumerate(names, start=1):
            values = [row[name] for row in rows]
            axes = figure.add_subplot(math.ceil(len(names) / columns), columns, place)
            if any(isinstance(value, bool | str) for value in values):
                values = list(map(str, values))
                axes.margins(x=0.2)
            elif min(values) > 0 and max(values) >= 100 * min(values):
                axes.set_xscale("log")
            axes.scatter(values, objective, color="#0072B2", alpha=0.6)
            axes.scatter(values[:1], objective[:1], color="#D55E00", s=60, label="best")
            axes.set(xlabel=name, ylabel=metric)
            axes.grid(axis="y", alpha=0.3)
        figure.axes[0].legend(frameon=False)
        _save(path, figure)


def _save(path: Path, figure: Figure) -> None:
    with atomic_write(path) as draft:
        figure.savefig(draft, format="png", dpi=150, bbox_inches="tight")
    plt.close(figure)
