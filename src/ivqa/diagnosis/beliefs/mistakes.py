"""The commonest kinds of wrong beliefs, in words."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ivqa.diagnosis.beliefs.beliefs import WRONG, Belief, resampled_shares
from ivqa.metrics.bootstrap import cluster_sums, interval
from ivqa.text.tokens import tokenise

BY_CHANCE = "by_chance"  # source of beliefs that a search drew with equal probability
_FIRST_WORDS = 2  # enough for "how many", "what color", "is there"


@runtime_checkable
class DescribesMistakes(Protocol):
    """An oracle that can say what a wrong answer gets wrong, such as that of the scenes."""

    def mistake(self, image_id: int, question: str, answer: str) -> tuple[str, str] | None:
        """What is wrong, and about what; None where the question is not understood."""


@dataclass(frozen=True)
class Mistake:
    """Wrong beliefs of one kind.

    Attributes:
        description: Continues the sentence "the model ...".
        things: What it is wrong about, with the number of beliefs, by falling number.
        count: Number of wrong beliefs of this kind.
        share: As a share of the wrong beliefs, or of those drawn by chance.
        confidence: Their mean phi.
        examples: The most confident one of each of a few images.
        interval: The 95 percent interval of the share; the bootstrap draws images.
    """

    description: str
    things: Sequence[tuple[str, int]]
    count: int
    share: float
    confidence: float
    examples: Sequence[Belief]
    interval: tuple[float, float]


def commonest_mistakes(
    beliefs: Sequence[Belief], oracle: object | None, num_examples: int = 3
) -> list[Mistake]:
    """Groups the wrong beliefs (adversarial and irrelevant ones) by what they get wrong.

    A search finds some kinds more often than others. Where some beliefs were drawn by chance
    (source `BY_CHANCE`), the shares rest on these alone: they were drawn with equal probability, so
    that their inverse probability weights are equal (Horvitz and Thompson, 1952).

    Args:
        beliefs: Typed beliefs.
        oracle: The oracle of their images. One that `DescribesMistakes` names the kinds; without
            one, the kind is the first two words of the question, and the thing is the answer.
        num_examples: Examples of each kind, each about another image.

    Returns:
        The kinds by falling share and count, then by description.
    """
    groups, counts = _by_kind(beliefs, oracle)
    if not groups:
        return []
    shares = (counts.sum(axis=0) / counts.sum()).tolist()
    intervals = interval(resampled_shares(counts)).T.tolist()
    mistakes = [
        Mistake(
            description=description,
            things=Counter(thing for thing, _ in own if thing).most_common(),
            count=len(own),
            share=share,
            interval=(low, high),
            confidence=sum(belief.phi for _, belief in own) / len(own),
            examples=_examples([belief for _, belief in own], num_examples),
        )
        for (description, own), share, (low, high) in zip(
            groups.items(), shares, intervals, strict=True
        )
    ]
    return sorted(mistakes, key=lambda one: (-one.share, -one.count, one.description))


def drawn_by_chance(beliefs: Sequence[Belief]) -> list[Belief]:
    """The beliefs that were drawn by chance; all of them if none was."""
    return [belief for belief in beliefs if belief.source == BY_CHANCE] or list(beliefs)


def shares_error(beliefs: Sequence[Belief], oracle: object | None) -> float | None:
    """Estimates the error of the shares of `commonest_mistakes` by the bootstrap over images.

    Returns:
        The expected total variation distance between the shares and those of all questions that
        could be drawn, in [0, 1]; None where no wrong belief was drawn by chance.
    """
    if not any(belief.source == BY_CHANCE and belief.type in WRONG for belief in beliefs):
        return None
    _, counts = _by_kind(beliefs, oracle)
    errors = np.abs(resampled_shares(counts) - counts.sum(axis=0) / counts.sum())
    return float(errors.sum(axis=1).mean() / 2)


def _by_kind(
    beliefs: Sequence[Belief], oracle: object | None
) -> tuple[dict[str, list[tuple[str, Belief]]], NDArray[np.float64]]:
    """The wrong beliefs of each kind with their things, and the numbers behind the shares.

    The numbers, (images, kinds), are those of the beliefs drawn by chance, if there are some.
    """
    describe = mistake_in(oracle)
    groups: dict[str, list[tuple[str, Belief]]] = {}
    for belief in beliefs:
        if belief.type in WRONG:
            description, thing = describe(belief)
            groups.setdefault(description, []).append((thing, belief))
    counted = set(drawn_by_chance([belief for own in groups.values() for _, belief in own]))
    drawn = [
        (belief.image_id, kind)
        for kind, own in enumerate(groups.values())
        for _, belief in own
        if belief in counted
    ]
    one_hot = np.eye(len(groups))[[kind for _, kind in drawn]]
    return groups, cluster_sums(one_hot, [image_id for image_id, _ in drawn])


def mistake_in(oracle: object | None) -> Callable[[Belief], tuple[str, str]]:
    """How the mistake of a wrong belief is described, by the oracle or else by its words.

    Returns:
        A function that returns what is wrong with a belief, and about what.
    """

    def by_words(belief: Belief) -> tuple[str, str]:
        start = " ".join(tokenise(belief.question)[:_FIRST_WORDS])
        return f"answers “{start} …” wrongly", f"“{belief.answer}”"

    def describe(belief: Belief) -> tuple[str, str]:
        said = None
        if isinstance(oracle, DescribesMistakes):
            said = oracle.mistake(belief.image_id, belief.question, belief.answer)
        return said or by_words(belief)

    return describe


def _examples(beliefs: Sequence[Belief], number: int) -> list[Belief]:
    """The most confident belief of each image, of the most confident images."""
    best: dict[int, Belief] = {}
    for belief in sorted(beliefs, key=lambda belief: (-belief.phi, belief.image_id)):
        best.setdefault(belief.image_id, belief)
    return list(best.values())[:number]
