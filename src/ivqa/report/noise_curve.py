"""Accuracy under noise as a picture."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

from ivqa.report.contact_sheet import write_page

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def write_noise_curve(path: Path, models: Mapping[str, Mapping[str, float]]) -> None:
    """Draws robustness/partition_K/accuracy of each model against the level K, as PNG."""
    settings: dict[Any, Any] = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 11,
    }
    with plt.rc_context(settings):
        figure, axes = plt.subplots(figsize=(6.4, 4.0))
        for name, metrics in models.items():
            means = accuracies(metrics)
            score = metrics["robustness/r_score"]
            axes.plot(range(len(means)), means, marker="o", label=f"{name}, R_score {score:.2f}")
        axes.set(xlabel="level of noise", ylabel="accuracy", ylim=(0, 1), title="Under noise")
        axes.grid(axis="y", alpha=0.3)
        axes.legend(frameon=False)
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=150, bbox_inches="tight")
        plt.close(figure)
    write_page(path, data.getvalue())


def accuracies(metrics: Mapping[str, float]) -> list[float]:
    """The accuracy at levels 0, 1, ... of flat metrics."""
    means: list[float] = []
    while (name := f"robustness/partition_{len(means)}/accuracy") in metrics:
        means.append(metrics[name])
    return means
