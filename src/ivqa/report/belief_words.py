"""A diagnosis in a few sentences, for the terminal and the top of the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from numpy.typing import ArrayLike
from rich.console import Console

from ivqa.diagnosis import Belief, Mistake, Reasons, across_confidence, commonest_mistakes
from ivqa.diagnosis.beliefs.beliefs import WRONG
from ivqa.diagnosis.beliefs.mistakes import drawn_by_chance
from ivqa.metrics import PUBLISHED_R_SCORE, RScore
from ivqa.report.noise_words import below_blind, change_in_words, score_in_words

_THINGS = 3  # things that a sentence names
_KINDS = 5  # kinds of wrong beliefs in the terminal
_LEAST_LEGAL = 0.5  # share of the samples of a generator
LEAST_JUDGED = 30  # beliefs that a share in the headline or in a chart rests on
_NEARLY_ALL = 0.9  # share of suspected answers
_SURE = 0.75  # a confidence that the headline calls high


@dataclass(frozen=True)
class BeliefPageModel:
    """The belief set of a model and the metrics of its diagnosis.

    Attributes:
        metrics: The metrics of the diagnosis by name.
        weights: Weight of each belief where people labelled some (`label_weights`); None: equal.
        corrections: The right answers that people entered for wrong beliefs.
        reasons: Why the model holds some of its beliefs, by line of beliefs.jsonl, from 1.
        r_score: R_score with the tolerance and limit of the metrics.
        note: What limits the diagnosis, as a sentence; "" if nothing does.
    """

    name: str
    beliefs: Sequence[Belief]
    metrics: Mapping[str, float]
    reasons: Mapping[int, Reasons] = field(default_factory=dict)
    r_score: RScore = PUBLISHED_R_SCORE
    note: str = ""
    weights: ArrayLike | None = None
    corrections: Mapping[Belief, Sequence[str]] = field(default_factory=dict)

    def noise(self) -> tuple[float, float] | None:
        """The accuracies without noise and at level 1; None if noise was not measured."""
        names = [f"robustness/partition_{level}/accuracy" for level in (0, 1)]
        if not all(name in self.metrics for name in names):
            return None
        return self.metrics[names[0]], self.metrics[names[1]]


def sentence(mistake: Mistake) -> str:
    """What the model gets wrong, as a sentence without its subject and full stop.

    >>> sentence(Mistake("counts too many things", [("stars", 3)], 4, 0.5, 0.62, [], (0, 1)))
    'counts too many things, most often stars'
    """
    things = _listed(mistake)
    return f"{mistake.description}, most often {things}" if things else mistake.description


def _listed(mistake: Mistake) -> str:
    """The commonest things, such as "stars, hearts and crosses"; "" without any."""
    *others, last = [thing for thing, _ in mistake.things[:_THINGS]] or [""]
    joint = ", " if any(" and " in thing for thing in (*others, last)) else " and "
    return f"{', '.join(others)}{joint}{last}" if others else last


def headline(model: BeliefPageModel, mistakes: Sequence[Mistake]) -> list[str]:
    """Says the most important of a diagnosis in a few sentences.

    How much is wrong, what is wrong most often (the first of `mistakes`), how much the confidence
    of the model is worth, what its answers prove, and what limits the diagnosis. What was not
    measured is left out, and so are shares of fewer than 30 judged beliefs.
    """
    name, metrics, beliefs = model.name, model.metrics, model.beliefs
    typed = [belief for belief in beliefs if belief.type is not None]
    accuracy = metrics.get("vqa/accuracy")
    start = "" if accuracy is None else f"{name} answers {accuracy:.0%} of the questions correctly"
    last = [*_provable(model), *filter(None, [model.note, mostly_illegal(metrics)])]
    if len(typed) < LEAST_JUDGED:
        few = f"Only {len(typed)} of its {len(beliefs):,} beliefs are judged, too few for a share."
        return [*([f"{start}."] if start else []), *([few] if typed else []), *last]
    wrong = [belief for belief in typed if belief.type in WRONG]
    found = "" if len(typed) == len(beliefs) else " that could be typed"
    share = f"{len(wrong) / len(typed):.0%} of its {len(typed):,} beliefs{found} are wrong"
    if metrics.get("beliefs/labels", 0) >= LEAST_JUDGED:  # they were not drawn uniformly
        low, high = (metrics[f"beliefs/incorrect_ppi_{end}"] for end in ("low", "high"))
        share = f"{low:.0%} to {high:.0%} of its {len(beliefs):,} beliefs are wrong"
    lines = [f"{start}, and {share}." if start else f"{name}: {share}."]
    counted = drawn_by_chance(wrong)
    if mistakes and len(counted) >= LEAST_JUDGED:
        worst, *_ = mistakes
        these = "these" if counted == wrong else f"the {len(counted):,} of these drawn by chance"
        lines.append(f"In {worst.share:.0%} of {these}, it {sentence(worst)}.")
    lines += [
        f"Where it is most confident, at {_SURE:.0%} or more, "
        f"{1 - surest.correct:.0%} of its beliefs are wrong."
        for surest in across_confidence(beliefs, (_SURE, 1.0), model.weights)
        if surest.typed >= LEAST_JUDGED
    ]
    return [*lines, *last]


def mostly_illegal(metrics: Mapping[str, float]) -> str:
    """Says that most samples of a generator or policy are no legal questions; "" if they are.

    >>> mostly_illegal({"supervised/legal": 0.9, "rl/legal": 0.31})
    'Only 31% of the questions of the policy are legal: what it finds says little about the model.'
    """
    for name, title in (("rl", "policy"), ("supervised", "generator")):
        if (legal := metrics.get(f"{name}/legal", 1.0)) < _LEAST_LEGAL:
            return (
                f"Only {legal:.0%} of the questions of the {title} are legal: what it finds says "
                "little about the model."
            )
    return ""


def _provable(model: BeliefPageModel) -> list[str]:
    """What the beliefs say about each other, whoever looks at the images."""
    least = model.metrics.get("beliefs/errors_at_least")
    if least is None or not model.beliefs:
        return []
    suspects = sum(bool(belief.suspect) for belief in model.beliefs)
    count = round(least * len(model.beliefs))
    of_all = f"of its {len(model.beliefs):,} answers"
    said = f"No two {of_all} certainly contradict each other"
    if count:
        said = (
            f"At least {count:,} {of_all} {_are(count)} wrong ({least:.1%}), because they "
            "contradict each other"
        )
    lines = [f"{said}; {suspects:,} {_are(suspects)} suspected."]
    if suspects > _NEARLY_ALL * len(model.beliefs):
        lines.append(
            "Its answers hardly ever agree with each other: they say nothing about the images, and "
            "single ones are of no interest."
        )
    if (further := model.metrics.get("follow_ups/count")) is not None:
        share = model.metrics["follow_ups/errors_at_least"]
        lines.append(
            f"With its answers to {further:,.0f} follow-ups, at least {share:.1%} of all answers "
            "are wrong."
        )
    if "search/next_100" in model.metrics:
        more, low, high = (model.metrics[f"search/next_100{end}"] for end in ("", "_low", "_high"))
        lines.append(
            f"One hundred more questions would prove about {more:.0f} more wrong answers "
            f"({low:.0f} to {high:.0f})."
        )
    return lines


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def summary(model: BeliefPageModel, oracle: object | None) -> list[str]:
    """Summarises a diagnosis in about ten lines; `oracle` may be None."""
    name, metrics, beliefs = model.name, model.metrics, model.beliefs
    lines = [f"{name} answers {metrics['vqa/accuracy']:.0%} of the questions correctly."]
    if (noise := model.noise()) is not None:
        lines.append(
            f"Under noise of level 1, {noise[1]:.0%}: the accuracy {change_in_words(*noise)} "
            f"({score_in_words(*noise, model.r_score)})."
        )
        lines += below_blind(name, metrics)
    count = int(metrics["beliefs/count"])
    found = f"{count:,} beliefs, {metrics['beliefs/per_pair']:.1f} for each image and answer"
    if (policy := metrics.get("rl/per_pair")) is not None:
        found += f": the policy found {policy:.1f}, the generator before it "
        found += f"{metrics['supervised/per_pair']:.1f}"
    lines.append(f"{found}.")
    typed = sum(belief.type is not None for belief in beliefs)
    if 0 < typed < LEAST_JUDGED:
        lines.append(f"Only {typed} are judged, too few for a share; {typed_by(beliefs)}.")
    elif typed:
        # The shares are those of the typed beliefs; a proxy may type few.
        some = "" if typed == len(beliefs) else f"Of the {typed:,} that could be typed, "
        lines.append(
            f"{some}{metrics['beliefs/correct']:.0%} are correct ({_share(metrics, 'rephrase')}, "
            f"{_share(metrics, 'complementary')}), {metrics['beliefs/incorrect']:.0%} are wrong "
            f"({_share(metrics, 'adversarial')}, {_share(metrics, 'irrelevant')}); "
            f"{typed_by(beliefs)}."
        )
    if "beliefs/incorrect_ppi" in metrics:
        share, low, high = (metrics[f"beliefs/incorrect_ppi{end}"] for end in ("", "_low", "_high"))
        lines.append(
            f"Corrected by labels of {metrics['beliefs/labels']:.0f} beliefs, {share:.0%} of all "
            f"beliefs are wrong (95 percent interval: {low:.0%} to {high:.0%})."
        )
    if "beliefs/contradictions" in metrics:
        share = metrics["beliefs/contradictions"]
        lines.append(f"{share:.0%} contradict another belief about the same image.")
    wrong = drawn_by_chance([belief for belief in beliefs if belief.type in WRONG])
    if len(wrong) >= LEAST_JUDGED:
        mistakes = commonest_mistakes(beliefs, oracle)[:_KINDS]
        lines.append("Of its wrong beliefs:")
        lines += [f"  {mistake.share:4.0%}  {name} {sentence(mistake)}" for mistake in mistakes]
    return lines


def print_summary(lines: Sequence[str], *, title: str, console: Console) -> None:
    """Prints the lines of `summary` below a title."""
    console.print(f"\n{title}", style="bold")
    for line in lines:
        console.print(line, highlight=False)


def typed_by(beliefs: Sequence[Belief]) -> str:
    """Says who typed beliefs, and how many if not all: "typed by: proxy, 86 of 9,024"."""
    by = sorted({str(belief.type_by) for belief in beliefs if belief.type_by})
    if not by:
        return "Types are unknown: nobody has judged the beliefs."
    typed = sum(belief.type is not None for belief in beliefs)
    some = f", {typed:,} of {len(beliefs):,}" if 0 < typed < len(beliefs) else ""
    return f"typed by: {' and '.join(by)}{some}"


def _share(metrics: Mapping[str, float], kind: str) -> str:
    return f"{metrics.get(f'beliefs/{kind}', 0.0):.0%} {kind}"
