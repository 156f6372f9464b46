"""A plot of the objective of a sweep against each parameter."""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

from ivqa.store.files import write_bytes

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

_COLUMNS = 3  # plots beside each other
_BEST = "#D55E00"
_OTHERS = "#0072B2"


def write_sweep_plot(
    path: Path,
    points: Sequence[Mapping[str, Any]],
    objective: Sequence[float],
    *,
    metric: str,
    best: int,
) -> None:
    """Draws one plot for each parameter, with one dot for each point and the best one marked.

    Numbers that spread over two powers of ten have a logarithmic axis; texts and switches are
    drawn side by side.

    Args:
        path: The PNG file to write.
        points: The parameters of each point by name.
        objective: The objective of each point.
        metric: The name of the objective.
        best: The index of the best point.
    """
    names = list(points[0])
    rows = math.ceil(len(names) / _COLUMNS)
    columns = min(len(names), _COLUMNS)
    settings: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(settings):
        figure, plots = plt.subplots(
            rows, columns, figsize=(4 * columns, 3 * rows), layout="constrained", squeeze=False,
            sharey=True,
        )  # fmt: skip
        for axes in plots.flat[len(names) :]:
            axes.remove()
        for name, axes in zip(names, plots.flat, strict=False):
            places = _places(axes, [point[name] for point in points])
            axes.scatter(places, objective, color=_OTHERS, alpha=0.6)
            axes.scatter([places[best]], [objective[best]], color=_BEST, s=60, label="best")
            axes.set_xlabel(name)
            axes.grid(axis="y", alpha=0.3)
        for axes in plots[:, 0]:
            axes.set_ylabel(metric)
        plots[0, 0].legend(frameon=False)
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=150)
        plt.close(figure)
    write_bytes(path, data.getvalue())


def _places(axes: Axes, values: Sequence[Any]) -> list[float]:
    """Where the values of a parameter lie on the axis, which is prepared for them."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        positive = [value for value in values if value > 0]
        if len(positive) == len(values) and max(values) >= 100 * min(values):
            axes.set_xscale("log")
        return [float(value) for value in values]
    texts = [str(value) for value in values]
    known = sorted(set(texts))
    axes.set_xticks(range(len(known)), known)
    axes.margins(x=0.2)
    return [float(known.index(text)) for text in texts]
