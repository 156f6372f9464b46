"""Descriptions of mistakes about one scene, each expected by hand."""

import pytest

from ivqa.scenes import SceneOracle
from ivqa.scenes.mistakes import describe_mistake
from ivqa.scenes.world import Scene, Thing

SCENE = Scene(
    "desert",
    "day",
    "clear",
    (
        Thing("star", "red", "large", "plain", x=0.2, y=0.2),
        Thing("heart", "blue", "small", "dotted", x=0.8, y=0.8),
        Thing("heart", "blue", "small", "plain", x=0.2, y=0.8),
    ),
)
ABSENT = "answers questions about things that are not there"


@pytest.mark.parametrize(
    ("question", "answer", "what", "things"),
    [
        ("Is there a circle?", "yes", "sees things that are not there", "circles"),
        ("Is there a green thing?", "yes", "sees things that are not there", "green things"),
        ("Is there a blue star?", "yes", "sees things that are not there", "stars"),
        ("Is there a star left of the heart?", "no", "overlooks things", "stars"),
        (
            "Is there a star below the heart?",
            "yes",
            "sees things in places where they are not",
            "stars",
        ),
        ("How many hearts are there?", "3", "counts too many things", "hearts"),
        ("How many things are there?", "1", "counts too few things", ""),
        ("How many hearts are there?", "red", "answers “how many” without a number", "red"),
        ("What color is the star?", "blue", "gives things a color that they do not have", "blue"),
        (
            "What shape is the red thing?",
            "cross",
            "gives things a shape that they do not have",
            "crosses",
        ),
        ("Is the star blue?", "yes", "gives things a color that they do not have", "blue"),
        ("Is the star red?", "no", "does not recognise the color of things", "red"),
        ("What color is the circle?", "red", ABSENT, "circles"),
        ("Is the star left of the circle?", "yes", ABSENT, "circles"),
        ("What color is the thing left of the cross?", "red", ABSENT, "crosses"),
        (
            "What is left of the star?",
            "heart",
            "answers questions about places where nothing is",
            "",
        ),
        ("Is the star below the heart?", "yes", "confuses places", "above and below"),
        ("Is the star right of the dotted heart?", "yes", "confuses places", "left and right"),
        ("Are there more stars than hearts?", "yes", "compares things wrongly", "numbers"),
        ("Is the heart larger than the star?", "yes", "compares things wrongly", "sizes"),
        (
            "Do the star and the heart have the same color?",
            "yes",
            "compares things wrongly",
            "colors",
        ),
        ("Where is this?", "beach", "mistakes the place of the scene", "desert for beach"),
        ("Is it raining?", "yes", "mistakes the weather of the scene", "clear for rainy"),
        ("Is this in the desert?", "no", "does not recognise the place of the scene", "desert"),
    ],
)
def test_a_mistake_is_described(question: str, answer: str, what: str, things: str) -> None:
    assert describe_mistake(question, answer, SCENE) == (what, things)
    assert SceneOracle({7: SCENE}).mistake(7, question, answer) == (what, things)


def test_a_question_outside_the_grammar_has_no_description() -> None:
    assert describe_mistake("Why is it so?", "yes", SCENE) is None
