"""Families of questions and what they presuppose, by hand."""

import pytest

from ivqa.logic import family, presuppositions
from ivqa.logic.forms import FAMILIES
from ivqa.logic.words import plural, singular

FAMILY = [
    ("How many dogs are there?", "count"),
    ("How many legs does the dog have?", "count"),
    ("Is there more than one dog?", "count"),
    ("Is there a dog?", "existence"),
    ("Can you see any dogs in this picture?", "existence"),
    ("Is anyone swimming?", "existence"),
    ("Is the dog brown?", "attribute"),
    ("Does the star look red?", "attribute"),
    ("Is the animal a dog?", "attribute"),
    ("Is the floor hardwood?", "attribute"),
    ("Are these lions?", "attribute"),
    ("Is the dog visible?", "existence"),
    ("What color is the dog?", "value"),
    ("What kind of dog is this?", "value"),
    ("Is the dog on the sofa?", "relation"),
    ("What is the man holding?", "relation"),
    ("What is left of the star?", "relation"),
    ("Does the man have a beard?", "relation"),
    ("Are there more dogs than cats?", "comparison"),
    ("Is the dog larger than the cat?", "comparison"),
    ("Is it raining?", "scene"),
    ("What time of day is it?", "scene"),
    ("Was this photo taken at the beach?", "scene"),
    ("Why is he sad?", "opaque"),
    ("Is the dog brown or black?", "opaque"),
    ("", "opaque"),
]


@pytest.mark.parametrize(("question", "kind"), FAMILY)
def test_family(question: str, kind: str) -> None:
    assert family(question) == kind
    assert kind in FAMILIES


PRESUPPOSED = [
    ("What is the man in the blue shirt holding?", ["Is there a man?", "Is there a blue shirt?"]),
    ("Are the woman's shoes red?", ["Are there any shoes?"]),
    ("Is this man wearing a hat?", ["Is there a man?"]),
    ("How many men are at the old table?", ["Is there an old table?"]),
    ("Is the dog surfing?", ["Is there a dog?"]),
    ("Is this pizza cut?", []),
    ("Is the stop sign new?", ["Is there a stop sign?"]),
    ("Are both of the cats asleep?", ["Are there any cats?"]),
    ("Is there a man on the left?", []),
    ("Is it the end of the day?", []),
    ("Is he sad?", []),
    ("Is this a dog?", []),
    ("What is the name of the sport?", []),
    ("Is this the kitchen?", []),
]


@pytest.mark.parametrize(("question", "expected"), PRESUPPOSED)
def test_presuppositions(question: str, expected: list[str]) -> None:
    assert presuppositions(question) == expected


@pytest.mark.parametrize(
    "pair",
    [
        "cars car",
        "benches bench",
        "boxes box",
        "glasses glasses",
        "people person",
        "knives knife",
        "ties tie",
        "berries berry",
        "buses bus",
        "dresses dress",
        "sheep sheep",
        "skis skis",
        "movies movie",
        "toothbrushes toothbrush",
        "women woman",
        "keys key",
        "giraffes giraffe",
    ],
)
def test_singular_and_plural(pair: str) -> None:
    many, one = pair.split()
    assert (singular(many), plural(one)) == (one, many)
