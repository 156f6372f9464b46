"""Stacked bars of shares, such as the kinds of questions that models ask first."""

from pathlib import Path

import matplotlib
import pandas as pd

from ivqa.store.files import atomic_write

matplotlib.use("Agg")
from matplotlib import pyplot as plt

# Colours that people with colour blindness tell apart (Okabe and Ito); correct ones are green.
_COLORS = ("#009E73", "#56B4E9", "#E69F00", "#CC79A7", "#999999", "#0072B2", "#D55E00")


def write_shares(path: Path, shares: pd.DataFrame) -> None:
    """Draws one horizontal bar for each row.

    Args:
        path: The PNG file.
        shares: Shares in [0, 1]: one row for each bar, one column for each part of it.
    """
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
    with atomic_write(path) as draft:
        figure.savefig(draft, format="png", dpi=150, bbox_inches="tight")
    plt.close(figure)
