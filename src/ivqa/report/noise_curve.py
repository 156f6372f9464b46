"""Accuracy under noise as a picture."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

from ivqa.files import write_bytes

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_FEW = 3  # curves with bands that can be told apart on the scale from 0 to 1


def write_noise_curve(path: Path, models: Mapping[str, Mapping[str, float]]) -> None:
    """Draws robustness/partition_K/accuracy of each model against the level K, as PNG.

    Bands are the intervals accuracy_low to accuracy_high. More curves than are told apart on one
    scale are drawn without them, on the scale of the data.
    """
    many = len(models) > _FEW
    settings: dict[Any, Any] = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 11,
    }
    with plt.rc_context(settings):
        figure, axes = plt.subplots(figsize=(6.4, 4.0))
        for name, metrics in models.items():
            means = accuracies(metrics)
            score = metrics.get("robustness/r_score")
            label = name if score is None else f"{name}, R_score {score:.2f}"
            (line,) = axes.plot(range(len(means)), means, marker="o", label=label)
            low, high = (accuracies(metrics, f"accuracy_{end}") for end in ("low", "high"))
            if low and not many:
                axes.fill_between(range(len(low)), low, high, color=line.get_color(), alpha=0.15)
        axes.set(xlabel="level of noise", ylabel="accuracy", title="Under noise")
        axes.grid(axis="y", alpha=0.3)
        if many:
            axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        else:
            axes.set_ylim(0, 1)
            axes.legend(frameon=False)
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=150, bbox_inches="tight")
        plt.close(figure)
    write_bytes(path, data.getvalue())


def accuracies(metrics: Mapping[str, float], figure: str = "accuracy") -> list[float]:
    """The accuracy, or another figure, at levels 0, 1, ... of flat metrics."""
    means: list[float] = []
    while (name := f"robustness/partition_{len(means)}/{figure}") in metrics:
        means.append(metrics[name])
    return means
