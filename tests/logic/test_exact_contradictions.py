"""The reference for contradictions on scenes: true beliefs have none; pairs with a known result."""

import random

import pytest
from exact_contradictions import contradicting

from ivqa.scenes import parse
from ivqa.scenes.grammar import realise
from ivqa.scenes.programs import evaluate
from ivqa.scenes.questions import sample_program
from ivqa.scenes.world import sample_scene


@pytest.mark.parametrize("seed", range(40))
def test_true_beliefs_never_contradict_each_other(seed: int) -> None:
    rng = random.Random(seed)
    scene = sample_scene(rng)
    beliefs = []
    for _ in range(120):
        program = sample_program(rng, scene)
        outcome = evaluate(program, scene)
        beliefs += [(realise(program, rng), answer) for answer in sorted(outcome.acceptable)]
    # Questions sampled for another scene, with their answers in this one.
    other = sample_scene(rng)
    for _ in range(60):
        program = sample_program(rng, other)
        outcome = evaluate(program, scene)
        if outcome.premise and outcome.answer is not None:
            beliefs.append((realise(program, rng), outcome.answer))
    assert len(beliefs) > 100
    clashes = contradicting(beliefs)
    assert not any(clashes), [pair for pair, bad in zip(beliefs, clashes, strict=True) if bad]


CLASHES = [
    # presence and number
    (("Is there a star?", "yes"), ("Do you see any stars?", "no")),
    (("How many hearts are there?", "2"), ("How many hearts do you see?", "3")),
    (("How many hearts are there?", "1"), ("How many hearts do you see?", "0")),
    (("How many stars are there?", "0"), ("What color is the star?", "red")),
    (("Is there a heart?", "no"), ("What color is the heart?", "red")),
    (("Is there a heart?", "no"), ("Is the heart red?", "no")),
    (("Is there a heart?", "no"), ("Is there a red heart?", "yes")),
    (("Is there a heart?", "no"), ("What shape is the large thing left of the heart?", "star")),
    (("How many red stars are there?", "3"), ("How many stars are there?", "2")),
    # attributes
    (("What color is the star?", "red"), ("Is there a red star?", "no")),
    (("Is the star red?", "yes"), ("Is there a red star?", "no")),
    (("What size is the star?", "big"), ("Is there a large star?", "no")),
    (("What color is the red star?", "red"), ("Is there a red star?", "no")),
    (("What color is the leftmost star?", "red"), ("Is there a star?", "no")),
    (("How many leftmost stars are there?", "1"), ("Is there a leftmost star?", "no")),
    # places
    (("How many stars are left of the heart?", "0"), ("Is there a heart?", "no")),
    (("Is there a star left of a heart?", "yes"), ("Is there a star?", "no")),
    (("Is there a star left of a red heart?", "yes"), ("Is there a star left of a heart?", "no")),
    (("Is there a red star left of a heart?", "yes"), ("Is there a star left of a heart?", "no")),
    (("Is the star left of the heart?", "yes"), ("Is there a heart?", "no")),
    (("Is the star left of the heart?", "no"), ("Is there a star?", "no")),
    (("Is the star left of the heart?", "yes"), ("Is there a star left of the heart?", "no")),
    (("Is the star left of the heart?", "no"), ("Is there a star left of the heart?", "yes")),
    (("Is the heart right of the star?", "yes"), ("Is there a star left of the heart?", "no")),
    # comparisons
    (("Are the star and the heart the same color?", "no"), ("Is there a heart?", "no")),
    (("Are the star and the heart the same color?", "yes"), ("Is there a star?", "no")),
    (("Is the star larger than the heart?", "no"), ("Is there a star?", "no")),
    (("Is the star smaller than the heart?", "yes"), ("Is there a star?", "no")),
    (("Are there more stars than hearts?", "yes"), ("Are there more stars than hearts?", "no")),
    (("Are there more stars than hearts?", "yes"), ("Are there more hearts than stars?", "yes")),
    (("Are there more stars than hearts?", "yes"), ("Are there fewer stars than hearts?", "yes")),
    (("Are there more stars than hearts?", "yes"), ("Are there as many stars as hearts?", "yes")),
    (("Are there fewer stars than hearts?", "yes"), ("Are there as many hearts as stars?", "yes")),
    (("Are there as many hearts as stars?", "no"), ("Are there as many stars as hearts?", "yes")),
    # the scene
    (("Where is this?", "beach"), ("Where is this?", "city")),
    (("Is this at the beach?", "yes"), ("Where is this?", "city")),
    (("Is this at the beach?", "no"), ("Where is this?", "seaside")),
    (("Is this at the beach?", "yes"), ("Is this in the city?", "yes")),
    (("Is this at the beach?", "yes"), ("Are we at the beach?", "no")),
    (("What is the weather like?", "sunny"), ("How is the weather?", "rainy")),
]


@pytest.mark.parametrize(("first", "second"), CLASHES)
def test_contradicting_beliefs(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert parse(first[0]) is not None
    assert parse(second[0]) is not None
    assert contradicting([first, second]) == [True, True]
    assert contradicting([second, first]) == [True, True]
    assert contradicting([first, ("Is this poetry?", "yes")]) == [False, False]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("What color is the star?", "red"), ("What color is the star?", "blue")),  # two stars
        (("How many red stars are there?", "2"), ("How many stars are there?", "2")),
        (("How many red stars are there?", "2"), ("How many stars are there?", "3")),
        (("How many stars are there?", "2"), ("How many stars do you see?", "2")),
        (("Is there a star?", "yes"), ("Is there a red star?", "no")),
        (("Is there a star?", "no"), ("Is there a heart?", "yes")),
        (("Is there a star?", "red"), ("Is there a star?", "no")),
        (("How many stars are there?", "many"), ("Is there a star?", "no")),
        (("Is the star red?", "no"), ("Is there a red star?", "no")),
        (("Is the star red?", "blue"), ("Is there a red star?", "no")),
        (("What color is the red star?", "blue"), ("Is there a blue star?", "no")),
        (("Is there a star?", "yes"), ("Is there a star left of a heart?", "no")),
        (("Is there a star left of a heart?", "yes"), ("Is there a star right of a heart?", "no")),
        (("Is there a star left of a heart?", "yes"), ("Is there a star left of a cross?", "no")),
        (("Is there a star left of a heart?", "yes"), ("Is there a star left of a red heart?",
                                                       "no")),
        (("How many stars are left of the heart?", "0"), ("Is there a star?", "no")),
        (("Is the star left of the heart?", "no"), ("Is there a star above the heart?", "yes")),
        (("Is the star left of the heart?", "red"), ("Is there a star left of the heart?", "no")),
        (("Are there more stars than hearts?", "no"), ("Are there fewer stars than hearts?", "no")),
        (("Are there more stars than hearts?", "no"), ("Are there as many stars as hearts?", "no")),
        (("Are there more stars than hearts?", "no"), ("Are there as many stars as hearts?",
                                                       "yes")),
        (("Are there more stars than hearts?", "yes"), ("Are there more crosses than hearts?",
                                                        "no")),
        (("Are there more stars than hearts?", "red"), ("Are there fewer stars than hearts?",
                                                        "yes")),
        (("Are there more stars than hearts?", "yes"), ("Do you see as many stars as hearts?",
                                                        "no")),
        (("Are there more hearts than stars?", "yes"), ("Do you see as many stars as hearts?",
                                                        "no")),
        (("Are there more stars than hearts?", "yes"), ("Do you see fewer stars than hearts?",
                                                        "no")),
        (("How many stars are there?", "3"), ("How many leftmost stars are there?", "1")),
        (("Is there a leftmost star?", "no"), ("Is there a rightmost star?", "yes")),
        (("Where is this?", "beach"), ("Where was this picture taken?", "sea")),
        (("Is this at the beach?", "no"), ("Is this in the city?", "no")),
        (("Is this at the beach?", "no"), ("Where is this?", "city")),
        (("Is this at the beach?", "perhaps"), ("Where is this?", "city")),
        (("Is this at the beach?", "perhaps"), ("Where is this?", "beach")),
        (("Where is this?", "day"), ("What time of day is it?", "night")),
    ],
)  # fmt: skip
def test_compatible_beliefs(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert parse(first[0]) is not None
    assert parse(second[0]) is not None
    assert contradicting([first, second]) == [False, False]


def test_only_contradicting_beliefs_are_marked() -> None:
    beliefs = [("Is there a heart?", "yes"), ("How many stars are there?", "2"),
               ("Where is this?", "beach"), ("How many stars are there?", "3")]  # fmt: skip
    assert contradicting(beliefs) == [False, True, False, True]
    assert contradicting(beliefs[:3]) == [False] * 3
    assert contradicting([]) == []
    # A belief that is false in every scene does not contradict another one.
    assert contradicting([("Is the star above the star?", "yes")]) == [False]
