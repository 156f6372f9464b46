"""The report about belief sets: what a model believes wrongly, and all beliefs with images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ivqa.data import VQASplit
from ivqa.diagnosis import (
    TYPES,
    Belief,
    Mistake,
    commonest_mistakes,
    convicted,
    first_meanings,
    meaning_of,
    right_answers,
)
from ivqa.diagnosis.beliefs.mistakes import BY_CHANCE
from ivqa.report.belief_charts import calibration_chart, confidence_chart, policy_chart
from ivqa.report.belief_data import PageBeliefs, mistake_rows
from ivqa.report.belief_words import BeliefPageModel, headline, mostly_illegal, sentence, typed_by
from ivqa.report.charts import noise_chart
from ivqa.report.noise_words import below_blind, change_in_words, score_in_words
from ivqa.report.pages.annotation_page import HasPictures
from ivqa.report.pages.base import script_json, write_page
from ivqa.scenes import Oracle

MOST_MODELS = 4
_SHOWN_PER_PAIR = 15  # meanings, as many as the paper's figures show; a button adds the others
_SHOWN_MISTAKES = 6  # kinds of wrong beliefs
_EXPLAINED_PER_PAIR = 2  # meanings of a pair whose words and places are shown
_MEANINGS = {
    "rephrase": "right, about a fact that a question of the data set asks for",
    "complementary": "right, about another fact",
    "adversarial": "wrong, about things that are there",
    "irrelevant": "wrong, about things that are not there",
}


@dataclass(frozen=True)
class _Front:
    """The beliefs that the top of the page shows."""

    mistakes: Sequence[Mistake]
    contradictions: Sequence[tuple[Belief, Belief]]

    @classmethod
    def of(cls, beliefs: Sequence[Belief], oracle: Oracle | None) -> "_Front":
        """Chooses from the typed beliefs of a model; `oracle` may be None."""
        return cls(commonest_mistakes(beliefs, oracle), convicted(beliefs))

    def beliefs(self) -> list[Belief]:
        """All beliefs that are shown, each once."""
        shown = [
            belief for mistake in self.mistakes[:_SHOWN_MISTAKES] for belief in mistake.examples
        ]
        return list(dict.fromkeys([*shown, *(one for pair in self.contradictions for one in pair)]))


def beliefs_to_explain(beliefs: Sequence[Belief], oracle: Oracle | None) -> list[Belief]:
    """Chooses the beliefs whose words and places the page shows.

    Args:
        oracle: The oracle of the images; None without one.

    Returns:
        The beliefs at the top of the page and the first ones of each pair, each once.
    """
    shown = _Front.of(beliefs, oracle).beliefs()
    shown += first_meanings(beliefs, meaning_of(oracle), _EXPLAINED_PER_PAIR)
    return list(dict.fromkeys(shown))


def write_belief_page(
    path: Path,
    title: str,
    models: Sequence[BeliefPageModel],
    split: HasPictures,
    references: Mapping[tuple[int, str], Sequence[str]],
    curves: Mapping[str, Sequence[tuple[int, float]]],
    oracle: Oracle | None = None,
) -> None:
    """Writes report.html: what the model believes wrongly, then the beliefs of every pair.

    The beliefs of a pair are ordered by confidence, those of one meaning are folded, and models
    stand side by side, about the images that all of them have beliefs about. The page is one file
    without links to others. It shows at most 100 images, spread evenly over all, and at most 50,000
    beliefs, the most confident of each pair.

    Args:
        models: The models; the first one is the diagnosed model.
        references: The questions of the data set by image id and answer.
        curves: Points (step, value) of the policy's rewards by name; may be empty.
        oracle: The oracle of the images, which knows the meanings of questions; None without one.
    """
    front = _Front.of(models[0].beliefs, oracle)
    others = [commonest_mistakes(model.beliefs, oracle) for model in models[1:]]
    if isinstance(split, VQASplit) and split.has_answers:
        beliefs = PageBeliefs(models, oracle, right_answers(None, split))
    else:
        beliefs = PageBeliefs(models, oracle)
    shown = front.beliefs()
    # The template refers to a belief of the front by its position.
    place = {belief: at for at, belief in enumerate(shown)}
    write_page(
        path,
        "beliefs.html.j2",
        title=title,
        subtitle=_subtitle(beliefs),
        headline=headline(models[0], front.mistakes),
        # The headline has the notes of the first model.
        models=[_summary(model, noted=at > 0) for at, model in enumerate(models)],
        types=_MEANINGS,
        typed=any(belief.type for model in models for belief in model.beliefs),
        charts=_charts(models),
        policy=policy_chart(curves) if curves else None,
        mistakes=_mistakes([front.mistakes, *others], place),
        by_chance=any(belief.source == BY_CHANCE for belief in models[0].beliefs),
        contradictions=[[place[belief] for belief in pair] for pair in front.contradictions],
        suspects=any(belief.suspect for model in models for belief in model.beliefs),
        shaded=any(model.reasons for model in models),
        looks=any(why.places for model in models for why in model.reasons.values()),
        data=script_json(beliefs.data(split, references, shown, _SHOWN_PER_PAIR)),
    )


def _subtitle(beliefs: PageBeliefs) -> str:
    shown, known = len(beliefs.shown_images), len(beliefs.images)
    some = f"{shown:,} of {known:,} images" if shown < known else f"{known:,} images"
    if known == 1:
        some = "1 image"
    return some if len(beliefs.models) == 1 else f"{some} that all models have beliefs about"


def _mistakes(
    models: Sequence[Sequence[Mistake]], place: Mapping[Belief, int]
) -> list[dict[str, Any]]:
    """The commonest kinds of the first model, with their shares in all models."""
    return [
        {
            "sentence": sentence(row["mistake"]),
            "count": row["mistake"].count,
            "confidence": row["mistake"].confidence,
            "of": [_bar(one.share, *one.interval) if one else _bar(0, 0, 0) for one in row["of"]],
            "examples": [place[belief] for belief in row["mistake"].examples],
        }
        for row in mistake_rows(models, _SHOWN_MISTAKES)
    ]


def _charts(models: Sequence[BeliefPageModel]) -> list[Markup]:
    """What confidence is worth, the confidences of each model, and the accuracy under noise."""
    noise = noise_chart({model.name: model.metrics for model in models})
    charts = [calibration_chart(models), *map(confidence_chart, models), noise]
    return [chart for chart in charts if chart is not None]


def _bar(value: float, low: float | None, high: float | None) -> dict[str, Any]:
    """A share as a bar with its interval, in percent."""
    text = f"{value:.0%}"
    if low is not None and high is not None and high > low:
        text += f" ({100 * low:.0f} to {100 * high:.0f})"
    return {"value": 100 * value, "low": 100 * (low or 0), "high": 100 * (high or 0), "text": text}


def _summary(model: BeliefPageModel, *, noted: bool) -> dict[str, Any]:
    """The figures of a model; `noted`: with the sentences about what limits its diagnosis."""
    metrics = model.metrics
    figures = {
        "beliefs": metrics.get("beliefs/count"),
        "for each image and answer": metrics.get("beliefs/per_pair"),
        "of the questions answered correctly": metrics.get("vqa/accuracy"),
        "R_score": metrics.get("robustness/r_score"),
    }
    noise = model.noise()
    notes = [
        *(filter(None, [model.note, mostly_illegal(metrics)]) if noted else ()),
        *below_blind(model.name, metrics),
    ]
    if noise is not None:
        words = score_in_words(*noise, model.r_score)
        notes.insert(0, f"Noise of level 1: the accuracy {change_in_words(*noise)} ({words}).")
    formats = {"beliefs": ",.0f", "of the questions answered correctly": ".0%"}
    shares = {
        "correct": "correct",
        "contradictory": "contradictions",
        "wrong at least": "errors_at_least",
        "suspected": "suspects",
    }
    return {
        "name": model.name,
        "figures": {
            name: format(value, formats.get(name, ".2f"))
            for name, value in figures.items()
            if value is not None
        },
        "shares": {
            name: _share(metrics, key) for name, key in shares.items() if _share(metrics, key)
        },
        "types": {kind: share for kind in TYPES if (share := _share(metrics, kind))},
        "notes": notes,
        "typed_by": typed_by(model.beliefs),
    }


def _share(metrics: Mapping[str, float], name: str) -> dict[str, Any] | None:
    """beliefs/NAME as a bar; None where it was not measured."""
    key = f"beliefs/{name}"
    if key not in metrics:
        return None
    return _bar(metrics[key], metrics.get(f"{key}_low"), metrics.get(f"{key}_high"))
