"""Pages about belief sets: a gallery to look at, and a questionnaire for people."""

import csv
import io
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ivqa.data import VQASplit
from ivqa.diagnosis import TYPES, Belief
from ivqa.files import write_bytes
from ivqa.report.contact_sheet import data_uri
from ivqa.report.noise_curve import accuracies

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_SHOWN_A_PAIR = 15  # as in the paper's figures
_SHOWN_PAIRS = 300
_TO_ANNOTATE = 500  # annotated beliefs a model [iVQA 6]
_TYPE_COLORS = {
    "rephrase": "#2f6fd6",
    "complementary": "#17794a",
    "adversarial": "#b4560b",
    "irrelevant": "#b0265a",
}


@dataclass(frozen=True)
class BeliefPageModel:
    """A model's belief set and the metrics of its diagnosis."""

    name: str
    beliefs: Sequence[Belief]
    metrics: Mapping[str, float]


def read_curves(file: Path) -> dict[str, list[tuple[int, float]]]:
    """The reward curves of a policy's metrics.csv: (step, value) by name; empty without one."""
    if not file.is_file():
        return {}
    curves: dict[str, list[tuple[int, float]]] = {}
    with file.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            for name, value in row.items():
                point = _point(row.get("step"), value)
                if name and name.startswith("val/") and point:
                    curves.setdefault(name.removeprefix("val/"), []).append(point)
    shown = ("reward", "goal", "legality", "diversity", "unique")
    return {name: curves[name] for name in shown if len(curves.get(name, ())) > 1}


def _point(step: str | None, value: str | None) -> tuple[int, float] | None:
    """A point of a curve; None for an empty cell, or a row that a kill has cut short."""
    try:
        return int(step or ""), float(value or "")
    except (TypeError, ValueError):
        return None


def write_belief_page(
    path: Path,
    title: str,
    models: Sequence[BeliefPageModel],
    split: VQASplit,
    references: Mapping[tuple[int, str], Sequence[str]],
    curves: Mapping[str, Sequence[tuple[int, float]]],
) -> None:
    """Writes one self-contained page: every pair's beliefs by confidence, models side by side.

    models: the first is the one diagnosed. references: the data set's own questions of a pair.
    """
    pairs = _by_pair(models)
    step = max(1, len(pairs) // _SHOWN_PAIRS)
    shown = list(pairs.items())[::step][:_SHOWN_PAIRS]
    images = {key[0]: _picture(split, key[0]) for key, _ in shown}
    items = [
        {
            "image": image_id,
            "answer": answer,
            "references": list(references.get((image_id, answer), ())),
            "models": by_model,
        }
        for (image_id, answer), by_model in shown
    ]
    page = (
        _environment()
        .get_template("beliefs.html.j2")
        .render(
            title=title,
            subtitle=f"{len(shown)} of {len(pairs)} image-answer pairs with beliefs",
            models=[_summary(model) for model in models],
            types=TYPES,
            colors=_TYPE_COLORS,
            plots=[Markup(svg) for svg in _plots(models, curves)],
            data=_script_json({"images": images, "items": items, "perPair": _SHOWN_A_PAIR}),
        )
    )
    write_bytes(path, page.encode())


@dataclass(frozen=True)
class ToAnnotate:
    """A question that people are to judge; reference: the data set's own one, if it has one."""

    image_id: int
    answer: str
    question: str
    reference: str = ""


def write_annotation_page(
    path: Path, title: str, asked: Sequence[ToAnnotate], split: VQASplit, seed: int = 0
) -> None:
    """Writes the questionnaire: relevant? same fact as the reference? correct? and a score 0-4.

    500 questions drawn at random; answers stay in the browser until they are exported as JSON.
    Everything that was entered is exported: who only scores exports scores.
    """
    chosen = random.Random(seed).sample(list(asked), min(len(asked), _TO_ANNOTATE))
    items = [
        {
            "image": item.image_id,
            "answer": item.answer,
            "question": item.question,
            "reference": item.reference,
        }
        for item in chosen
    ]
    images = {item.image_id: _picture(split, item.image_id) for item in chosen}
    template = _environment().get_template("annotate.html.j2")
    page = template.render(title=title, data=_script_json({"images": images, "items": items}))
    write_bytes(path, page.encode())


def _by_pair(models: Sequence[BeliefPageModel]) -> dict[tuple[int, str], dict[str, Any]]:
    pairs: dict[tuple[int, str], dict[str, Any]] = {}
    for model in models:
        for belief in model.beliefs:
            of_pair = pairs.setdefault((belief.image_id, belief.answer), {})
            of_pair.setdefault(model.name, []).append(
                {
                    "q": belief.question,
                    "phi": round(belief.phi, 3),
                    "type": belief.type or "untyped",
                    "source": belief.source,
                }
            )
    for by_model in pairs.values():
        for beliefs in by_model.values():
            beliefs.sort(key=lambda belief: -belief["phi"])
    return pairs


def _summary(model: BeliefPageModel) -> dict[str, Any]:
    metrics = model.metrics
    figures = {
        "beliefs": metrics.get("beliefs/count"),
        "a pair": metrics.get("beliefs/per_pair"),
        "correct": metrics.get("beliefs/correct"),
        "contradictory": metrics.get("beliefs/contradictions"),
        "VQA accuracy": metrics.get("vqa/accuracy"),
        "R_score": metrics.get("robustness/r_score"),
    }
    by = {belief.type_by for belief in model.beliefs if belief.type_by}
    return {
        "name": model.name,
        "figures": {
            name: f"{value:.0f}" if name == "beliefs" else f"{value:.2f}"
            for name, value in figures.items()
            if value is not None
        },
        "shares": {kind: metrics.get(f"beliefs/{kind}", 0.0) for kind in TYPES},
        "typed_by": " and ".join(sorted(by)) or "nobody",
    }


def _plots(
    models: Sequence[BeliefPageModel], curves: Mapping[str, Sequence[tuple[int, float]]]
) -> list[str]:
    plots = []
    with plt.rc_context(
        {
            "svg.fonttype": "path",
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    ):
        figure, axes = plt.subplots(figsize=(4.6, 2.8))
        axes.hist(
            [[belief.phi for belief in model.beliefs] for model in models],
            bins=20,
            range=(0, 1),
            label=[model.name for model in models],
        )
        axes.set(xlabel="confidence of a belief, phi(a | I, q)", ylabel="beliefs")
        if len(models) > 1:
            axes.legend(frameon=False)
        plots.append(_svg(figure))
        if curves:
            figure, axes = plt.subplots(figsize=(4.6, 2.8))
            for name, points in curves.items():
                axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
            axes.set(xlabel="policy gradient step", ylabel="mean over samples", ylim=(0, 1.02))
            # Curves cross the whole height, so that there is no room for it inside.
            axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
            plots.append(_svg(figure))
        noisy = {model.name: accuracies(model.metrics) for model in models}
        if any(noisy.values()):
            figure, axes = plt.subplots(figsize=(4.6, 2.8))
            for name, means in noisy.items():
                axes.plot(range(len(means)), means, marker="o", markersize=3, label=name)
            axes.set(xlabel="basic-question noise, level", ylabel="accuracy", ylim=(0, 1))
            if len(models) > 1:
                axes.legend(frameon=False, fontsize=8)
            plots.append(_svg(figure))
    return plots


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", transparent=True)
    plt.close(figure)
    drawing = text.getvalue()[text.getvalue().index("<svg") :]
    return re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)  # it has the date


def _picture(split: VQASplit, image_id: int) -> str:
    return "" if split.images is None else data_uri(split.images.path(image_id))


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("ivqa.report"), autoescape=True, undefined=StrictUndefined
    )


def _script_json(value: Any) -> Markup:
    """JSON that is safe inside <script>: no text of a data set can close the element."""
    text = json.dumps(value, ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028"))
