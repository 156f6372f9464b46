"""Samples the questions that people ask about a scene: programs with the biases of VQA 1.0.

"yes" is more frequent than "no", "2" is the most frequent count, and premises are true
(Antol et al., VQA, ICCV 2015; Goyal et al., VQA 2.0, CVPR 2017, section 1).
"""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from ivqa.scenes.programs import (
    EXTREMES,
    INVERSE,
    Noun,
    Program,
    Things,
    denoted,
    evaluate,
    make,
)
from ivqa.scenes.world import SCENE_ATTRIBUTES, THING_ATTRIBUTES, VALUES, Scene, Thing, holds

_YES_SHARE = 0.59  # of "yes" among yes/no questions, as in VQA 1.0 (Antol et al. 2015)
# A count question is kept with a probability proportional to the weight of its answer.
_COUNT_WEIGHTS = {"0": 0.3, "1": 0.5, "2": 3.0, "3": 1.2, "4": 1.0, "5": 1.0, "6": 1.0}
# Attributes that the noun phrase of an existence or count question names, with weights.
_NAMED_ATTRIBUTES = {
    ("shape",): 8,
    ("color",): 3,
    ("pattern",): 1,
    ("shape", "color"): 5,
    ("shape", "pattern"): 2,
    ("shape", "size"): 1,
}
_TRIES = 60  # draws of a program of one kind before another kind is drawn
_REDUNDANT_SHARE = 0.1  # of noun phrases that name one attribute more than they need


def sample_program(rng: random.Random, scene: Scene) -> Program:
    """Draws a question with a true premise and exactly one right answer on a scene."""
    while True:
        # Kind and answer are drawn first and kept while programs are rejected. Otherwise programs
        # that are easy to find would be too frequent.
        kind = rng.choices(list(_KINDS), [share for _, share in _KINDS.values()])[0]
        draw, _ = _KINDS[kind]
        wanted = "yes" if rng.random() < _YES_SHARE else "no"
        for _ in range(_TRIES):
            program = draw(rng, scene)
            if program is None:
                break
            outcome = evaluate(program, scene)
            if not outcome.premise or len(outcome.acceptable) != 1:
                continue
            if program.answer_type == "yes/no" and outcome.answer != wanted:
                continue
            # 3 is the largest weight.
            if kind == "count" and rng.random() > _COUNT_WEIGHTS[str(outcome.answer)] / 3:
                continue
            return program


def sample_contrast(rng: random.Random, scene: Scene, changed: Scene) -> Program | None:
    """Draws a question that two scenes answer differently, as in VQA 2.0.

    It has a true premise and one right answer on each scene. Returns None if none of `_TRIES` draws
    is such a question.
    """
    for _ in range(_TRIES):
        program = sample_program(rng, rng.choice((scene, changed)))
        first, second = evaluate(program, scene), evaluate(program, changed)
        single = len(first.acceptable) == len(second.acceptable) == 1
        if single and first.answer != second.answer:
            return program
    return None


def _noun_for(
    rng: random.Random, scene: Scene, thing: Thing, hidden: str | None = None
) -> Noun | None:
    """Draws a short noun phrase that fits one thing of a scene only."""
    names = [name for name in THING_ATTRIBUTES if name != hidden]
    # The shortest phrases are tried first.
    for size in range(1, len(names) + 1):
        fitting = []
        for chosen in combinations(names, size):
            noun = Noun(**{name: getattr(thing, name) for name in chosen})
            if sum(noun.matches(other) for other in scene.things) == 1:
                # People name the shape of a thing where they can.
                fitting += [noun] * (12 if "shape" in chosen else 1)
        if fitting:
            noun = rng.choice(fitting)
            unsaid = [name for name in names if getattr(noun, name) is None]
            if unsaid and rng.random() < _REDUNDANT_SHARE:
                name = rng.choice(unsaid)
                noun = replace(noun, **{name: getattr(thing, name)})
            return noun
    return None


def _some_noun(rng: random.Random, scene: Scene) -> Noun:
    """A noun phrase that may fit none, one or many things."""
    thing = rng.choice(scene.things)
    names = rng.choices(list(_NAMED_ATTRIBUTES), list(_NAMED_ATTRIBUTES.values()))[0]
    values = {name: getattr(thing, name) for name in names}
    if rng.random() < 0.5:
        name = rng.choice(names)
        values[name] = rng.choice(VALUES[name])
    return Noun(**values)


def _described(rng: random.Random, scene: Scene, hidden: str | None = None) -> Things | None:
    """A phrase for one thing: by its attributes, by a relation (12%) or by an extreme (4%)."""
    thing = rng.choice(scene.things)
    draw = rng.random()
    if draw < 0.12:
        relation = rng.choice(list(INVERSE))
        anchors = [other for other in scene.things if holds(thing, relation, other)]
        anchor = _noun_for(rng, scene, rng.choice(anchors)) if anchors else None
        if anchor is not None:
            things = Things(Noun(), relation, anchor)
            return things if denoted(things, scene) == [thing] else None
    elif draw < 0.16:
        things = Things(Noun(), extreme=rng.choice(list(EXTREMES)))
        return things if len(denoted(things, scene) or ()) == 1 else None
    noun = _noun_for(rng, scene, thing, hidden)
    return None if noun is None else Things(noun)


def _first_built(build: Callable[[], Program | None]) -> Program | None:
    """The first program that one of 20 calls returns."""
    return next((program for _ in range(20) if (program := build()) is not None), None)


def _exist(rng: random.Random, scene: Scene) -> Program | None:
    noun = _some_noun(rng, scene)
    if rng.random() < 0.25:
        anchor = _noun_for(rng, scene, rng.choice(scene.things))
        if anchor is not None:
            return make("exist", subject=Things(noun, rng.choice(list(INVERSE)), anchor))
    return make("exist", subject=Things(noun))


def _count(rng: random.Random, scene: Scene) -> Program | None:
    if rng.random() < 0.2:
        anchor = _noun_for(rng, scene, rng.choice(scene.things))
        if anchor is not None:
            return make("count", subject=Things(Noun(), rng.choice(list(INVERSE)), anchor))
    if rng.random() < 0.1:
        return make("count", subject=Things(Noun()))
    return make("count", subject=Things(_some_noun(rng, scene)))


def _query(rng: random.Random, scene: Scene) -> Program | None:
    # Weights in the order of THING_ATTRIBUTES: people ask most about colours and shapes.
    attribute = rng.choices(THING_ATTRIBUTES, (3, 4, 1, 2))[0]

    def build() -> Program | None:
        things = _described(rng, scene, attribute)
        if things is None:
            return None
        return make("query", subject=things, attribute=attribute)

    return _first_built(build)


def _check(rng: random.Random, scene: Scene) -> Program | None:
    attribute = rng.choices(THING_ATTRIBUTES, (1, 4, 2, 2))[0]

    def build() -> Program | None:
        things = _described(rng, scene, attribute)
        if things is None:
            return None
        found = denoted(things, scene)
        assert found
        true = rng.random() < 0.6
        value = getattr(found[0], attribute) if true else rng.choice(VALUES[attribute])
        return make("check", subject=things, attribute=attribute, value=value)

    return _first_built(build)


def _pair(
    rng: random.Random, scene: Scene, hidden: str | None = None
) -> tuple[Things, Things] | None:
    nouns = [_noun_for(rng, scene, thing, hidden) for thing in rng.sample(scene.things, 2)]
    if nouns[0] is None or nouns[1] is None:
        return None
    return Things(nouns[0]), Things(nouns[1])


def _relate(rng: random.Random, scene: Scene) -> Program | None:
    pair = _pair(rng, scene)
    if pair is None:
        return None
    return make("relate", subject=pair[0], other=pair[1], relation=rng.choice(list(INVERSE)))


def _compare_numbers(rng: random.Random, scene: Scene) -> Program | None:
    first, second = (Things(_some_noun(rng, scene)) for _ in range(2))
    # There is nothing to compare.
    if first == second:
        return make("exist", subject=first)
    return make(rng.choice(("more", "more", "fewer", "equal")), subject=first, other=second)


def _same(rng: random.Random, scene: Scene) -> Program | None:
    attribute = rng.choices(THING_ATTRIBUTES, (1, 4, 2, 2))[0]
    pair = _pair(rng, scene, attribute)
    if pair is None:
        return None
    return make("same", subject=pair[0], other=pair[1], attribute=attribute)


def _larger(rng: random.Random, scene: Scene) -> Program | None:
    pair = _pair(rng, scene, "size")
    if pair is None:
        return None
    return make(rng.choice(("larger", "smaller")), subject=pair[0], other=pair[1])


def _scene_query(rng: random.Random, scene: Scene) -> Program | None:
    return make("scene_query", attribute=rng.choice(SCENE_ATTRIBUTES))


def _scene_check(rng: random.Random, scene: Scene) -> Program | None:
    attribute = rng.choice(SCENE_ATTRIBUTES)
    true = rng.random() < 0.5
    value = getattr(scene, attribute) if true else rng.choice(VALUES[attribute])
    return make("scene_check", attribute=attribute, value=value)


# How each kind is drawn, and its share in percent: 41 yes/no, 11 number and 48 other, nearly as in
# VQA 1.0.
_KINDS: dict[str, tuple[Callable[[random.Random, Scene], Program | None], int]] = {
    "exist": (_exist, 14),
    "check": (_check, 9),
    "relate": (_relate, 6),
    "compare": (_compare_numbers, 3),
    "same": (_same, 2),
    "larger": (_larger, 2),
    "scene_check": (_scene_check, 5),
    "count": (_count, 11),
    "query": (_query, 36),
    "scene_query": (_scene_query, 12),
}


def question_type(question: str, answer_type: str) -> str:
    """The first words of a question, by which VQA groups questions, in lower case.

    They are two for the answer type "yes/no" and three for all others.

    Example:
        >>> question_type("What color is the star?", "other")
        'what color is'
    """
    words = question.lower().rstrip("?").split()
    return " ".join(words[: 2 if answer_type == "yes/no" else 3])
