"""A plot of accuracy under noise."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

from ivqa.store.files import write_bytes

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_MAX_BANDS = 3  # with more curves their bands overlap


def write_noise_curve(path: Path, models: Mapping[str, Mapping[str, float]]) -> None:
    """Plots robustness/partition_K/accuracy of each model against the level K, and what it loses.

    The second plot shows the accuracy without noise minus that of the level. Bands show the 95
    percent intervals, accuracy_low to accuracy_high. More than three curves are drawn without
    bands, and the axis shows the range of the data instead of 0 to 1.

    Args:
        path: The PNG file to write.
        models: Metrics of each model, by the name in the legend.
    """
    many = len(models) > _MAX_BANDS
    settings: dict[Any, Any] = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "font.size": 11,
    }
    with plt.rc_context(settings):
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
            losses.plot(
                range(len(means)),
                [means[0] - mean for mean in means],
                marker="o",
                color=line.get_color(),
            )
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
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=150, bbox_inches="tight")
        plt.close(figure)
    write_bytes(path, data.getvalue())


def accuracies(metrics: Mapping[str, float], figure: str = "accuracy") -> list[float]:
    """Collects the accuracy at levels 0, 1, ... from flat metrics.

    Args:
        metrics: Values by name, robustness/partition_K/accuracy among them.
        figure: Another figure of a level, such as "accuracy_low".

    Returns:
        Values in [0, 1] by level; empty if noise was not measured.

    >>> accuracies({"robustness/partition_0/accuracy": 0.8, "robustness/partition_1/accuracy": 0.6})
    [0.8, 0.6]
    """
    means: list[float] = []
    while (name := f"robustness/partition_{len(means)}/{figure}") in metrics:
        means.append(metrics[name])
    return means
