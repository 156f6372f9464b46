"""Questions in plain English: wordings, and the things that answers name."""

import math

import pytest
import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis import PlainEnglish
from ivqa.diagnosis.search.companions import COMPANIONS
from ivqa.diagnosis.search.phrases import noun_phrase, things_in
from ivqa.diagnosis.search.plain_english import (
    ATTRIBUTES,
    SCENE,
    SCENE_VALUES,
    SEE,
    Meaning,
    attributes_of,
    stated_value,
)
from ivqa.logic import contradicting
from ivqa.scenes import parse
from ivqa.text.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("meaning", "question"),
    [
        (Meaning("exists", noun_phrase("umbrella")), "Is there an umbrella?"),
        (Meaning("exists", noun_phrase("snow")), "Is there any snow?"),
        (Meaning("exists", noun_phrase("glasses")), "Are there any glasses?"),
        (Meaning("count", noun_phrase("person", ("small",))), "How many small people are there?"),
        (Meaning("color", noun_phrase("fire hydrant")), "What color is the fire hydrant?"),
        (Meaning("color", noun_phrase("pants")), "What color are the pants?"),
        (Meaning("pattern", noun_phrase("pants")), "What pattern do the pants have?"),
        (Meaning("action", noun_phrase("man")), "What is the man doing?"),
        (Meaning("check", noun_phrase("man"), "riding a horse"), "Is the man riding a horse?"),
        (Meaning("check", noun_phrase("table"), "made of wood"), "Is the table made of wood?"),
        (Meaning("more", noun_phrase("dog"), "boxes"), "Are there more dogs than boxes?"),
        (Meaning("scene", value="weather"), "What is the weather like?"),
        (Meaning("scene_check", value="rainy", kind="weather"), "Is it raining?"),
        (Meaning("see", value="What is in the picture?"), "What is in the picture?"),
    ],
)
def test_a_meaning_has_one_legal_wording(meaning: Meaning, question: str) -> None:
    assert meaning.question == question


def test_the_grammar_of_the_scenes_reads_all_that_is_asked_about_its_things() -> None:
    star = noun_phrase("star", ("red",))
    asked = [Meaning(name, star) for name in ("exists", "count", "size", "pattern", "shape")]
    asked += [Meaning("color", noun_phrase("star")), Meaning("check", star, "striped")]
    asked += [Meaning("more", star, "circles"), *(Meaning("scene", value=one) for one in SCENE)]
    asked += [
        Meaning("scene_check", value=value, kind=kind)
        for kind, value in [("weather", "snowy"), ("time", "night"), ("time", "day")]
    ]
    assert [one.question for one in asked if parse(one.question) is None] == []


def test_logic_reads_every_family() -> None:
    # Whatever is said about "the car" presupposes one; counts and comparisons speak of numbers.
    car = noun_phrase("car")
    asked = [(Meaning(name, car).question, "red") for name in ATTRIBUTES]
    asked += [(Meaning("check", car, "red").question, "no"), (Meaning("count", car).question, "2")]
    asked += [(Meaning("more", car, "dogs").question, "yes")]
    denied = (Meaning("exists", car).question, "no")
    assert [one for one in asked if not all(contradicting([denied, one]))] == []


@pytest.mark.parametrize(
    ("answer", "things"),
    [
        ("Two men riding brown horses.", ("man", "horse")),
        ("a dog and a cat", ("dog", "cat")),
        ("stop sign", ("stop sign",)),
        ("cross", ("cross",)),
        ("glasses", ("glasses",)),
        ("people", ("person",)),
        ("nothing", ()),
        ("yes", ()),
        ("2", ()),
        ("red", ()),
        ("tennis", ()),
        ("cat cat cat cat", ()),
        ("cat cat", ()),
        ("fire truck ladder", ("fire truck ladder",)),
        ("table chair lamp couch bed", ()),
    ],
)
def test_things_are_read_from_answers(answer: str, things: tuple[str, ...]) -> None:
    assert things_in(answer) == things


@pytest.mark.parametrize(
    ("attribute", "answer", "value"),
    [
        ("color", "Red.", "red"),
        ("color", "2", None),
        ("color", "red and white", None),
        ("color", "table", None),
        ("color", "big", None),
        ("size", "large", "large"),
        ("color", "unknown", None),
        ("material", "wood", "made of wood"),
        ("material", "glass", "made of glass"),
        ("material", "blue", None),
        ("action", "riding a horse", "riding a horse"),
        ("action", "horse", None),
        ("where", "left", None),
        ("shape", "star", None),
    ],
)
def test_values_are_read_from_answers(attribute: str, answer: str, value: str | None) -> None:
    assert stated_value(attribute, answer) == value


def test_people_are_not_asked_what_they_are_made_of() -> None:
    assert "material" not in attributes_of("fat man")
    assert "wearing" in attributes_of("man")
    assert "wearing" not in attributes_of("dog")
    assert "action" not in attributes_of("car")


def test_values_of_the_whole_picture_have_questions() -> None:
    for kind, values in SCENE_VALUES.items():
        for value in values:
            assert Meaning("scene_check", value=value, kind=kind).question.endswith("?")


class _Sees:
    """A model that sees a red car, and nothing else."""

    answers = None

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        return [self._answer(question) for question in questions]

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        return torch.zeros(len(questions), len(answers or ()))

    def _answer(self, question: str) -> str:
        if question in SEE:
            return "a car"
        if question == "What color is the car?":
            return "Red"
        if question.startswith("Is there"):
            return "yes" if question == "Is there a car?" else "no"
        return "unknown"


def test_the_generator_asks_what_has_the_wanted_answer() -> None:
    first = torch.zeros(1, dtype=torch.int64)
    images = ImageBatch(first, first.repeat(3))
    words = Vocabulary(["is", "there", "a", "car"])
    generator = PlainEnglish(_Sees(), words)
    drawn = generator.sample(
        images, ["red", "yes", "no"], 4, None, torch.Generator().manual_seed(1)
    )
    assert drawn.pair.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert set(drawn.text[:4]) == {"What color is the car?"}
    assert set(drawn.text[4:8]) == {"Is there a car?"}
    # Companions of a car that are not there: six are asked for.
    near = {f"Is there a {noun}?" for noun in COMPANIONS["car"][:6]}
    assert set(drawn.text[8:]) <= near
    asked = ["What color is the car?", "Is there a dog?", next(iter(near))]
    scores = generator.log_likelihood(images, ["red", "yes", "no"], asked)
    assert scores.tolist() == pytest.approx([0.0, -math.inf, -math.log(6)])
    assert drawn.log_likelihood[8:].tolist() == pytest.approx([-math.log(6)] * 4)
    assert words.decode(drawn.tokens)[4] == "Is there a car?"
