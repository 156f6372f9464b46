"""The report about belief sets: what a model believes wrongly, and all beliefs with images."""

import csv
import io
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
from markupsafe import Markup

from ivqa.data import VQASplit
from ivqa.diagnosis import TYPES, Belief, commonest_mistakes, sharpest_contradictions
from ivqa.files import write_bytes
from ivqa.report.annotation_page import picture
from ivqa.report.belief_words import BeliefPageModel, sentence, typed_by
from ivqa.report.noise_curve import accuracies
from ivqa.report.pages import render, script_json
from ivqa.scenes import Oracle

matplotlib.use("Agg")
from matplotlib import pyplot as plt

_SHOWN_PER_PAIR = 15  # beliefs, as in the paper's figures; a button shows the others
_SHOWN_PAIRS = 300  # keeps the page at a few megabytes
_SHOWN_MISTAKES = 6  # kinds of wrong beliefs
_TYPE_COLORS = {
    "rephrase": "#2f6fd6",
    "complementary": "#17794a",
    "adversarial": "#b4560b",
    "irrelevant": "#b0265a",
}


def read_curves(file: Path) -> dict[str, list[tuple[int, float]]]:
    """Reads the validation rewards of a policy from metrics.csv.

    Args:
        file: The file; it need not exist.

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
    shown = ("reward", "goal", "legality", "diversity")
    return {name: curves[name] for name in shown if len(curves.get(name, ())) > 1}


def _point(step: str | None, value: str | None) -> tuple[int, float] | None:
    """A point of a curve; None for an empty cell or a truncated row."""
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
    oracle: Oracle | None = None,
) -> None:
    """Writes report.html: what the model believes wrongly, then the beliefs of every pair.

    The beliefs of a pair are ordered by confidence, those of one meaning are folded, and models
    stand side by side. The page is one file without links to others.

    Args:
        path: The file to write.
        title: The title of the page.
        models: The models; the first one is the diagnosed model.
        split: The split of the images.
        references: The questions of the data set by image id and answer.
        curves: Points (step, value) of the policy's rewards by name; may be empty.
        oracle: The oracle of the images, which knows the meanings of questions; None without one.
    """
    pairs = _by_pair(models, oracle)
    # Evenly spread over all pairs, so that the page shows all kinds of images and answers.
    step = max(1, len(pairs) // _SHOWN_PAIRS)
    shown = list(pairs.items())[::step][:_SHOWN_PAIRS]
    images = {key[0]: picture(split, key[0]) for key, _ in shown}
    items = [
        {
            "image": image_id,
            "answer": answer,
            "references": list(references.get((image_id, answer), ())),
            "models": by_model,
        }
        for (image_id, answer), by_model in shown
    ]
    page = render(
        "beliefs.html.j2",
        title=title,
        subtitle=f"{len(shown)} of {len(pairs)} image-answer pairs with beliefs",
        models=[_summary(model) for model in models],
        types=TYPES,
        colors=_TYPE_COLORS,
        plots=[Markup(svg) for svg in _plots(models, curves)],
        wrong=_wrong_beliefs(models[0], split, oracle),
        data=script_json({"images": images, "items": items, "perPair": _SHOWN_PER_PAIR}),
    )
    write_bytes(path, page.encode())


def _wrong_beliefs(
    model: BeliefPageModel, split: VQASplit, oracle: Oracle | None
) -> dict[str, Any] | None:
    """What the top of the page shows of a model's wrong beliefs; None if none is known."""
    mistakes = commonest_mistakes(model.beliefs, oracle)[:_SHOWN_MISTAKES]
    if not mistakes:
        return None
    # Contradictions are found by the grammar of the scenes.
    clashes = sharpest_contradictions(model.beliefs) if oracle is not None else []

    def view(belief: Belief) -> dict[str, Any]:
        return {"picture": picture(split, belief.image_id), **asdict(belief)}

    return {
        "mistakes": [
            {
                "sentence": sentence(mistake),
                "share": mistake.share,
                "examples": [view(belief) for belief in mistake.examples],
            }
            for mistake in mistakes
        ],
        "contradictions": [[view(belief) for belief in pair] for pair in clashes],
    }


def _by_pair(
    models: Sequence[BeliefPageModel], oracle: Oracle | None
) -> dict[tuple[int, str], dict[str, Any]]:
    """Beliefs by image id and answer, then by model, in decreasing confidence."""
    pairs: dict[tuple[int, str], dict[str, Any]] = {}
    meanings: dict[Hashable, int] = {}
    for model in models:
        for belief in model.beliefs:
            of_pair = pairs.setdefault((belief.image_id, belief.answer), {})
            of_pair.setdefault(model.name, []).append(
                {
                    "q": belief.question,
                    "phi": round(belief.phi, 3),
                    "type": belief.type or "untyped",
                    "source": belief.source,
                    "m": _number(belief.question, oracle, meanings),
                }
            )
    for by_model in pairs.values():
        for beliefs in by_model.values():
            beliefs.sort(key=lambda belief: -belief["phi"])
    return pairs


def _number(question: str, oracle: Oracle | None, meanings: dict[Hashable, int]) -> int | None:
    """The number of a question's meaning, None where it is unknown; new meanings are added."""
    fact = None if oracle is None else oracle.fact(question)
    return None if fact is None else meanings.setdefault(fact, len(meanings))


def _summary(model: BeliefPageModel) -> dict[str, Any]:
    """The figures of a model at the top of the page."""
    metrics = model.metrics
    figures = {
        "beliefs": metrics.get("beliefs/count"),
        "per pair": metrics.get("beliefs/per_pair"),
        "correct": metrics.get("beliefs/correct"),
        "contradictory": metrics.get("beliefs/contradictions"),
        "VQA accuracy": metrics.get("vqa/accuracy"),
        "R_score": metrics.get("robustness/r_score"),
    }
    return {
        "name": model.name,
        "figures": {
            name: f"{value:.0f}" if name == "beliefs" else f"{value:.2f}"
            for name, value in figures.items()
            if value is not None
        },
        "shares": {kind: metrics.get(f"beliefs/{kind}", 0.0) for kind in TYPES},
        "typed_by": typed_by(model.beliefs),
    }


def _plots(
    models: Sequence[BeliefPageModel], curves: Mapping[str, Sequence[tuple[int, float]]]
) -> list[str]:
    """Plots as SVG: confidences of beliefs, rewards of the policy, and accuracy under noise."""
    plots = []
    with plt.rc_context(
        {
            "svg.fonttype": "path",  # the page has no font files
            "font.size": 10,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    ):
        figure, axes = plt.subplots(figsize=(4.2, 2.7))
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
            figure, axes = plt.subplots(figsize=(4.2, 2.7))
            for name, points in curves.items():
                axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
            axes.set(xlabel="policy gradient step", ylabel="mean over samples", ylim=(0, 1.02))
            # The curves fill the whole height, so the legend does not fit inside.
            axes.legend(
                frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4
            )
            plots.append(_svg(figure))
        noisy = {model.name: accuracies(model.metrics) for model in models}
        if any(noisy.values()):
            figure, axes = plt.subplots(figsize=(4.2, 2.7))
            for name, means in noisy.items():
                axes.plot(range(len(means)), means, marker="o", markersize=3, label=name)
            axes.set(xlabel="level of noise", ylabel="accuracy", ylim=(0, 1))
            if len(models) > 1:
                axes.legend(frameon=False, fontsize=8)
            plots.append(_svg(figure))
    return plots


def _svg(figure: Any) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight", transparent=True)
    plt.close(figure)
    drawing = text.getvalue()[text.getvalue().index("<svg") :]
    # The metadata contain the date, which would make equal reports differ.
    return re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
