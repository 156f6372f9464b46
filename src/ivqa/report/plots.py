"""Curves of a training run."""

import io
import math
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ivqa.report.atomic import write_bytes

# Okabe and Ito's blue and vermilion: apart for colour-blind readers and in print.
_STAGES = {"train": "#0072b2", "val": "#d55e00"}
_OTHER = "#4d4d4d"
_INK, _SOFT, _GRID = "#26262b", "#6b6b76", "#e6e4df"
_SMOOTHED_FROM = 40  # fewer points are a curve by themselves


def plot_training(metrics_csv: Path, output: Path) -> None:
    """Draws each term of a run over its steps into a PNG, one panel a term.

    metrics_csv: Lightning's CSVLogger file, one row a call of `log`: columns `step`, `epoch` and
    `<stage>/<term>`, blank where a row does not have the term. `train/x` and `val/x` share panel
    x; a long training curve is faint behind its running mean; the lowest validation loss is
    marked.

    Raises FileNotFoundError without the file, and ValueError where it has no step or no curve.
    """
    frame = _read(metrics_csv)
    panels = _panels(frame)
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(4.3 * columns, 2.9 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, (term, curves) in zip(axes, panels.items(), strict=False):
        for column in curves:
            _draw(axis, frame[["step", column]].dropna(), column)
        _dress(axis, term, legend=any("/" in column for column in curves))
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=150, facecolor="white")
    write_bytes(output, data.getvalue())


def _read(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; it is written by Lightning's CSVLogger")
    try:
        frame = pd.read_csv(path)
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty; a run that logged nothing has no curves") from error
    if "step" not in frame:
        raise ValueError(f"{path} has no column 'step'; give the metrics.csv of a CSVLogger")
    # A text such as "nan" or "inf" of a diverged run must not turn its column into a non-number.
    numbers = frame.apply(pd.to_numeric, errors="coerce").replace([math.inf, -math.inf], math.nan)
    return numbers.sort_values("step", kind="stable")


def _panels(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Columns that have values by their term, the loss first, then as logged."""
    panels: dict[str, list[str]] = {}
    for column in frame.columns:
        if column not in ("step", "epoch") and frame[column].notna().any():
            panels.setdefault(column.partition("/")[2] or column, []).append(column)
    if not panels:
        raise ValueError("the file of metrics has no curve: all its columns are blank")
    return dict(sorted(panels.items(), key=lambda panel: panel[0] != "loss"))


def _draw(axis: Axes, points: pd.DataFrame, column: str) -> None:
    stage, _, term = column.partition("/")
    color = _STAGES.get(stage, _OTHER)
    steps, values = points["step"], points[column]
    noisy = stage == "train" and len(points) > _SMOOTHED_FROM
    marker = "o" if len(points) <= _SMOOTHED_FROM else ""
    style = {"linewidth": 1.8, "marker": marker, "markersize": 3.2, "solid_capstyle": "round"}
    if noisy:
        axis.plot(steps, values, color=color, alpha=0.25, linewidth=0.8)
        values = values.ewm(span=len(points) / 15).mean()
    axis.plot(steps, values, color=color, label=stage, zorder=3, **style)
    if stage == "val" and term == "loss":
        best = values.idxmin()
        axis.plot(steps[best], values[best], "o", color=color, markersize=8, mfc="none", zorder=4)
        axis.annotate(
            f"{values[best]:.4g}",
            (steps[best], values[best]),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            color=color,
            fontsize=9,
        )


def _dress(axis: Axes, term: str, *, legend: bool) -> None:
    axis.set_title(term.replace("_", " "), loc="left", fontsize=11, color=_INK)
    axis.set_xlabel("step", fontsize=9, color=_SOFT)
    axis.grid(axis="y", color=_GRID, linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.spines["bottom"].set_color(_GRID)
    axis.tick_params(colors=_SOFT, labelsize=9, length=0)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axis.margins(x=0.03, y=0.12)
    if legend:
        axis.legend(frameon=False, fontsize=9, labelcolor=_INK)
