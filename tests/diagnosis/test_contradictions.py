import random

import pytest

from ivqa.data.scenes.grammar import realise
from ivqa.data.scenes.programs import evaluate
from ivqa.data.scenes.questions import sample_program
from ivqa.data.scenes.world import sample_scene
from ivqa.diagnosis import contradicting


@pytest.mark.parametrize("seed", range(40))
def test_true_beliefs_never_contradict_each_other(seed: int) -> None:
    rng = random.Random(seed)
    scene = sample_scene(rng)
    beliefs = []
    for _ in range(120):
        program = sample_program(rng, scene)
        outcome = evaluate(program, scene)
        beliefs += [(realise(program, rng), answer) for answer in sorted(outcome.answers)]
    # Questions made for other images, with what is true in this one.
    other = sample_scene(rng)
    for _ in range(60):
        program = sample_program(rng, other)
        outcome = evaluate(program, scene)
        if outcome.premise and outcome.answer is not None:
            beliefs.append((realise(program, rng), outcome.answer))
    assert len(beliefs) > 100
    clash = contradicting(beliefs)
    assert not any(clash), [pair for pair, bad in zip(beliefs, clash, strict=True) if bad]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("Is there a star?", "yes"), ("Do you see any stars?", "no")),
        (("How many hearts are there?", "2"), ("How many hearts do you see?", "3")),
        (("Is there a heart?", "no"), ("What color is the heart?", "red")),
        (("Is there a heart?", "no"), ("Is there a red heart?", "yes")),
        (("How many red stars are there?", "3"), ("How many stars are there?", "2")),
        (("What color is the star?", "red"), ("Is there a red star?", "no")),
    ],
)
def test_beliefs_that_no_image_satisfies(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert contradicting([first, second]) == [True, True]
    assert contradicting([first, ("Is this poetry?", "yes")]) == [False, False]


def test_two_stars_may_have_two_colors() -> None:
    beliefs = [("What color is the star?", "red"), ("What color is the star?", "blue")]
    assert contradicting(beliefs) == [False, False]
