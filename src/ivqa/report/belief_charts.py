"""Charts of the belief page: calibration, confidences, rewards of the policy."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from ivqa.diagnosis import across_confidence
from ivqa.report.belief_words import LEAST_JUDGED, BeliefPageModel
from ivqa.report.charts import Line, Part, bar_chart, line_chart

_TENTHS = [at / 10 for at in range(11)]
_BARS = 20
_MOST_TICKS = 5
_CONFIDENCE = "confidence phi(a | I, q)"


def calibration_chart(models: Sequence[BeliefPageModel]) -> Markup | None:
    """The share of correct beliefs against confidence; None if too few are judged.

    Bands of a width of 0.1 with fewer than 30 judged beliefs are left out, and so are models whose
    beliefs people chose to judge by rules that are not known.
    """
    lines = []
    for model in models:
        if model.weights is None and any(one.type_by == "human" for one in model.beliefs):
            continue
        bands = across_confidence(model.beliefs, _TENTHS, model.weights)
        bands = [band for band in bands if band.typed >= LEAST_JUDGED]
        if bands:
            x, y = [round(one.confidence, 2) for one in bands], [one.correct for one in bands]
            lines.append(Line(model.name, x, y, [one.interval for one in bands]))
    if not lines:
        return None
    title = "Right beliefs by confidence"
    ticks = [0, 0.25, 0.5, 0.75, 1]
    even = "as confident as right"
    return line_chart(title, lines, _CONFIDENCE, "right beliefs", ticks, diagonal=even)


def confidence_chart(model: BeliefPageModel) -> Markup | None:
    """The confidences of right and wrong beliefs; without types, of suspects and others."""
    if not model.beliefs:
        return None
    typed = any(belief.type for belief in model.beliefs)
    if typed:
        kinds = {None: "not judged", "rephrase": "right", "complementary": "right"}
        names = [kinds.get(belief.type, "wrong") for belief in model.beliefs]
        colors = {"right": "right", "wrong": "wrong", "not judged": "untyped"}
    else:
        names = ["suspected" if belief.suspect else "not suspected" for belief in model.beliefs]
        colors = {"not suspected": "s0", "suspected": "wrong"}
    counts = {name: [0] * _BARS for name in colors}
    for belief, name in zip(model.beliefs, names, strict=True):
        counts[name][min(int(_BARS * belief.phi), _BARS - 1)] += 1
    parts = [Part(name, colors[name], own) for name, own in counts.items() if any(own)]
    return bar_chart(f"Confidence of {model.name}", parts, _CONFIDENCE, "beliefs")


def policy_chart(curves: Mapping[str, Sequence[tuple[int, float]]]) -> Markup:
    """The validation rewards of the policy during its training."""
    lines = [Line(name, *zip(*points, strict=True)) for name, points in curves.items()]
    steps = sorted({x for line in lines for x in line.x})
    ticks = steps[:: -(-len(steps) // _MOST_TICKS)]
    return line_chart(
        "Rewards of the policy", lines, "policy gradient step", "mean of samples", ticks
    )


def read_curves(file: Path, rewards: Iterable[str]) -> dict[str, list[tuple[int, float]]]:
    """Reads the validation rewards of a policy from metrics.csv, which need not exist.

    Args:
        rewards: Their names; "reward" is their product.

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
    return {name: curves[name] for name in rewards if len(curves.get(name, ())) > 1}


def _point(step: str | None, value: str | None) -> tuple[int, float] | None:
    """A point of a curve; None for an empty cell or a truncated row."""
    try:
        return int(step or ""), float(value or "")
    except (TypeError, ValueError):
        return None
