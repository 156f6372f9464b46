"""Writes five captions of a scene, as COCO has for each image, each about other attributes."""

import random
from collections import Counter

from ivqa.scenes.programs import INVERSE
from ivqa.scenes.words import RELATION_PHRASES, VALUE_PHRASES, plural
from ivqa.scenes.world import Scene, Thing, holds

_WHERE = {
    "beach": "on a beach",
    "city": "in a city",
    "desert": "in a desert",
    "field": "in a field",
    "forest": "in a forest",
    "mountains": "in the mountains",
}
_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


def describe(scene: Scene, rng: random.Random) -> list[str]:
    """Writes five captions of a scene.

    They are by colour and place, by pattern and time, by size and weather, by position, and by
    number with all of the surroundings. `rng` chooses the order of the things and the positions
    that are named.
    """
    things = list(scene.things)
    rng.shuffle(things)
    # The first three captions say one attribute of the things and one of the scene each.
    place, time = _WHERE[scene.place], VALUE_PHRASES[scene.time][0]
    weather = f"in {scene.weather} weather"
    counts = Counter(thing.shape for thing in things)
    numbers = [f"{_NUMBERS[n]} {plural(name) if n > 1 else name}" for name, n in counts.items()]
    return [
        f"{_listed([f'a {thing.color} {thing.shape}' for thing in things])} {place}",
        f"{_listed([f'a {thing.pattern} {thing.shape}' for thing in things])} {time}",
        f"{_listed([f'a {thing.size} {thing.shape}' for thing in things])} {weather}",
        _listed(_positions(things, rng)),
        f"{_NUMBERS[len(things)]} things, {_listed(numbers)}, {place} {time} {weather}",
    ]


def _positions(things: list[Thing], rng: random.Random) -> list[str]:
    """One phrase for each of up to four pairs of things that have a relation."""
    pairs = [(a, b) for a in things for b in things if a is not b]
    rng.shuffle(pairs)
    phrases = []
    for a, b in pairs[:4]:
        relations = [name for name in INVERSE if holds(a, name, b)]
        if relations:
            phrases.append(f"a {a.shape} {RELATION_PHRASES[rng.choice(relations)][0]} a {b.shape}")
    return phrases or [f"a {things[0].shape} and a {things[1].shape}"]


def _listed(parts: list[str]) -> str:
    """The parts as an enumeration: "a, b and c"."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
