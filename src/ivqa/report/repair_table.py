"""The table of a repair: the figures of the VQA model before, after each round, and of controls."""

from collections.abc import Mapping
from typing import Any

# Columns of the table: heading, figure.
_COLUMNS = {
    "added questions": "added_questions",
    "wrong": "wrong_rate",
    "adversarial": "adversarial",
    "irrelevant": "irrelevant",
    "beliefs a pair": "per_pair",
    "correct a pair": "correct_per_pair",
    "contradictions": "contradictions",
    "accuracy": "accuracy",
    "accuracy lost by noise": "acc_diff",
    "R_score": "r_score",
    "not above blind": "below_blind",  # 1: R_score says nothing
}


def repair_table(
    figures: Mapping[str, Mapping[str, float]], repaired: str
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Arranges the figures of the models of a repair.

    Args:
        figures: The figures of each model by its name, such as "before" or "round_1".
        repaired: The name of the model that the repair keeps.

    Returns:
        One row for each model, in the same order, with "" for a figure that it lacks; and the
        metrics MODEL/FIGURE, those of the repaired model as repaired/FIGURE too.
    """
    rows: list[dict[str, Any]] = []
    metrics: dict[str, float] = {}
    for model, own in figures.items():
        names = [model, *(["repaired"] if model == repaired else [])]
        shown = {heading: own.get(figure, "") for heading, figure in _COLUMNS.items()}
        rows.append({"model": ", ".join(names).replace("_", " "), **shown})
        metrics |= {f"{name}/{figure}": value for name in names for figure, value in own.items()}
    return rows, metrics
