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

_COLUMNS = 3  # plots beside each other


def write_sweep_plot(path: Path, rows: Sequence[Mapping[str, Any]], metric: str) -> None:
    """Draws one plot for each parameter, with one dot for each point and the best one marked.

    Numbers that spread over two powers of ten have a logarithmic axis; texts and switches are
    drawn side by side.

    Args:
        path: The PNG file to write.
        rows: The number, the objective and the parameters of each point, the best point first.
        metric: The name of the objective.
    """
    objective, names = [row[metric] for row in rows], list(rows[0])[2:]
    columns = min(len(names), _COLUMNS)
    size = (4 * columns, 3 * math.ceil(len(names) / columns))
    settings: dict[Any, Any] = {"axes.spines.top": False, "axes.spines.right": False}
    with plt.rc_context(settings):
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
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=150)
        plt.close(figure)
    write_bytes(path, data.getvalue())
