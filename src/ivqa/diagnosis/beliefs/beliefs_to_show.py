"""Samples of a belief set across the confidence of the model, and the beliefs to explain."""

import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.diagnosis.policy.rewards import meaning
from ivqa.scenes import Oracle

_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the bands of confidence


@dataclass(frozen=True)
class Band:
    """The beliefs whose confidence phi lies in [low, high).

    Attributes:
        high: The upper edge; the last band contains it.
        count: Number of beliefs.
        typed: Number of those with a type.
        correct: Share of the typed ones that are correct; 0 if none is typed.
        examples: Some of them, drawn at random, of different images while there are enough.
    """

    low: float
    high: float
    count: int
    typed: int
    correct: float
    examples: Sequence[Belief]


def across_confidence(beliefs: Sequence[Belief], number: int = 3, seed: int = 0) -> list[Band]:
    """Draws beliefs at random from each band of confidence.

    Args:
        beliefs: The beliefs.
        number: Examples of each band.
        seed: Seed of the draw.

    Returns:
        The bands that have beliefs, the most confident first.
    """
    bands = []
    for low, high in reversed(list(pairwise(_EDGES))):
        own = [b for b in beliefs if low <= b.phi < high or b.phi == high == _EDGES[-1]]
        if not own:
            continue
        typed = [belief for belief in own if belief.type is not None]
        correct = sum(belief.type in ("rephrase", "complementary") for belief in typed)
        shuffled = random.Random(seed).sample(own, len(own))
        bands.append(
            Band(
                low=low,
                high=high,
                count=len(own),
                typed=len(typed),
                correct=correct / max(len(typed), 1),
                examples=_of_different_images(shuffled, number),
            )
        )
    return bands


def most_confident(beliefs: Sequence[Belief], number: int = 3) -> list[Belief]:
    """Chooses the most confident beliefs, of different images while there are enough.

    Args:
        beliefs: The beliefs.
        number: How many.

    Returns:
        Beliefs by falling phi within the first of each image.
    """
    return _of_different_images(sorted(beliefs, key=lambda belief: -belief.phi), number)


def meaning_of(oracle: Oracle | None) -> Callable[[str], Hashable]:
    """How the meaning of a question is found: paraphrases have the same.

    Returns:
        A function that returns the fact that the oracle reads in a question; where it reads none,
        or without an oracle, the program or the content words (`meaning`).
    """

    def of(question: str) -> Hashable:
        fact = None if oracle is None else oracle.fact(question)
        return meaning(question) if fact is None else fact

    return of


def first_meanings(
    beliefs: Iterable[Belief], means: Callable[[str], Hashable], number: int
) -> list[Belief]:
    """Chooses the most confident belief of each of the first meanings of every pair.

    Args:
        beliefs: The beliefs.
        means: The meaning of a question, see `meaning_of`.
        number: Meanings of each image and answer.

    Returns:
        The beliefs, by falling phi.
    """
    chosen: dict[tuple[int, str], set[Hashable]] = {}
    first = []
    for belief in sorted(beliefs, key=lambda belief: -belief.phi):
        known = chosen.setdefault((belief.image_id, belief.answer), set())
        if len(known) < number and (sense := means(belief.question)) not in known:
            known.add(sense)
            first.append(belief)
    return first


def _of_different_images(beliefs: Sequence[Belief], number: int) -> list[Belief]:
    """The first belief of each image; if the images are too few, then further ones."""
    first = {belief.image_id: belief for belief in reversed(beliefs)}
    ordered = [belief for belief in beliefs if first[belief.image_id] is belief]
    others = [belief for belief in beliefs if first[belief.image_id] is not belief]
    return (ordered + others)[:number]
