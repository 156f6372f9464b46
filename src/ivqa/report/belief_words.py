"""A diagnosis in a few sentences, for the terminal and the top of the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from ivqa.diagnosis import Belief, Mistake, commonest_mistakes

_THINGS = 3  # things that a sentence names
_KINDS = 5  # kinds of wrong beliefs in the terminal


@dataclass(frozen=True)
class BeliefPageModel:
    """The belief set of a model and the metrics of its diagnosis.

    Attributes:
        name: The name of the model.
        beliefs: Its beliefs.
        metrics: The metrics of the diagnosis by name.
    """

    name: str
    beliefs: Sequence[Belief]
    metrics: Mapping[str, float]


def sentence(mistake: Mistake) -> str:
    """Says what the model gets wrong.

    Args:
        mistake: Wrong beliefs of one kind.

    Returns:
        A sentence without its subject and full stop.

    Example:
        >>> sentence(Mistake("counts too many things", [("stars", 3)], 4, 0.5, 0.62, []))
        'counts too many things (most often stars)'
    """
    things = [thing for thing, _ in mistake.things[:_THINGS]]
    if not things:
        return mistake.description
    return f"{mistake.description} (most often {', '.join(things)})"


def summary(model: BeliefPageModel, oracle: object | None) -> list[str]:
    """Summarises a diagnosis in about ten lines.

    Args:
        model: The VQA model with its typed beliefs and the metrics of the diagnosis.
        oracle: The oracle of the images; None without one.

    Returns:
        The lines.
    """
    name, metrics, beliefs = model.name, model.metrics, model.beliefs
    lines = [f"{name} answers {metrics['vqa/accuracy']:.0%} of the questions correctly."]
    if "robustness/partition_1/accuracy" in metrics:
        lines.append(
            f"With basic questions appended, {metrics['robustness/partition_1/accuracy']:.0%} "
            f"(noise level 1; R_score {metrics['robustness/r_score']:.2f})."
        )
    count = int(metrics["beliefs/count"])
    lines.append(
        f"{count:,} beliefs, {metrics['beliefs/per_pair']:.1f} for each image and answer: the "
        f"policy found {metrics['rl/per_pair']:.1f}, the generator before it "
        f"{metrics['supervised/per_pair']:.1f}."
    )
    typed = sum(belief.type is not None for belief in beliefs)
    if typed:
        # The shares are those of the typed beliefs; a proxy may type few.
        some = "" if typed == len(beliefs) else f"Of the {typed:,} that could be typed, "
        lines.append(
            f"{some}{metrics['beliefs/correct']:.0%} are correct ({_share(metrics, 'rephrase')}, "
            f"{_share(metrics, 'complementary')}), {metrics['beliefs/incorrect']:.0%} are wrong "
            f"({_share(metrics, 'adversarial')}, {_share(metrics, 'irrelevant')}); "
            f"{typed_by(beliefs)}."
        )
    if "beliefs/contradictions" in metrics:
        share = metrics["beliefs/contradictions"]
        lines.append(f"{share:.0%} contradict another belief about the same image.")
    mistakes = commonest_mistakes(beliefs, oracle)[:_KINDS]
    if mistakes:
        lines.append("Of its wrong beliefs:")
        lines += [f"  {mistake.share:4.0%}  {name} {sentence(mistake)}" for mistake in mistakes]
    return lines


def print_summary(lines: Sequence[str], *, title: str, console: Console) -> None:
    """Prints a summary below its title.

    Args:
        lines: Result of `summary`.
        title: The title.
        console: The terminal.
    """
    console.print(f"\n[bold]{title}[/]")
    for line in lines:
        console.print(line, markup=False, highlight=False)


def typed_by(beliefs: Sequence[Belief]) -> str:
    """Says who typed beliefs, and how many if not all.

    Args:
        beliefs: The beliefs of a model.

    Returns:
        Such as "typed by: proxy, 86 of 9,024".
    """
    by = sorted({str(belief.type_by) for belief in beliefs if belief.type_by})
    typed = sum(belief.type is not None for belief in beliefs)
    some = f", {typed:,} of {len(beliefs):,}" if 0 < typed < len(beliefs) else ""
    return f"typed by: {' and '.join(by) or 'nobody'}{some}"


def _share(metrics: Mapping[str, float], kind: str) -> str:
    return f"{metrics.get(f'beliefs/{kind}', 0.0):.0%} {kind}"
