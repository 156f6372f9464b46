"""The meaning of a question: a functional program, its answer on a scene, its expert layout.

Programs are normalised when built: "the star is right of the heart" and "the heart is left of the
star" are one program, so that equal meanings compare equal, however they are phrased.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from ivqa.scenes.world import MARGIN, SCENE_ATTRIBUTES, THING_ATTRIBUTES, Scene, Thing

INVERSE = {"left": "right", "right": "left", "above": "below", "below": "above"}
EXTREMES = {"leftmost": "left", "rightmost": "right", "highest": "above", "lowest": "below"}

# Words that people use for an answer of the grammar.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "checkered": ("checked", "checks", "checkerboard"),
    "striped": ("stripes", "lines"),
    "dotted": ("dots", "polka dots", "spotted"),
    "plain": ("solid", "none"),
    "large": ("big",),
    "small": ("little", "tiny"),
    "circle": ("round", "ball"),
    "cross": ("plus",),
    "diamond": ("rhombus",),
    "purple": ("violet",),
    "beach": ("sea", "seaside"),
    "city": ("town",),
    "field": ("meadow", "grass"),
    "forest": ("woods", "trees"),
    "mountains": ("mountain", "hills"),
    "day": ("daytime", "noon"),
    "night": ("nighttime", "evening"),
    "sunset": ("dusk", "sunrise"),
    "clear": ("sunny", "fair"),
    "cloudy": ("overcast", "clouds"),
    "rainy": ("raining", "rain"),
    "snowy": ("snowing", "snow"),
}


@dataclass(frozen=True)
class Noun:
    """What a noun phrase says of a thing; None where it says nothing."""

    shape: str | None = None
    color: str | None = None
    size: str | None = None
    pattern: str | None = None

    def matches(self, thing: Thing) -> bool:
        """Whether the phrase fits the thing."""
        return all(
            value is None or value == getattr(thing, name) for name, value in vars(self).items()
        )


@dataclass(frozen=True)
class Things:
    """The things a phrase denotes: a noun, and where they are.

    relation, anchor: left, right, above or below of some thing that fits the anchor.
    extreme: a key of EXTREMES, the furthest one in a direction.
    """

    noun: Noun
    relation: str | None = None
    anchor: Noun | None = None
    extreme: str | None = None


@dataclass(frozen=True)
class Program:
    """A question's meaning; `make` builds it in its normal form.

    kind: exist, count, query, check, relate, more, equal, same, larger, scene_query, scene_check.
    subject, other: what it is about. attribute, value: what is asked of it. relation: of relate.
    """

    kind: str
    subject: Things | None = None
    other: Things | None = None
    attribute: str | None = None
    value: str | None = None
    relation: str | None = None

    @property
    def answer_type(self) -> str:
        """The VQA answer type of every answer to it."""
        if self.kind == "count":
            return "number"
        return "other" if self.kind in ("query", "scene_query") else "yes/no"


def make(kind: str, **parts: object) -> Program:
    """The program of these parts in normal form: left and above only, more and larger only."""
    program = Program(kind, **parts)  # type: ignore[arg-type]
    swapped = replace(program, subject=program.other, other=program.subject)
    if kind == "relate" and program.relation in ("right", "below"):
        return replace(swapped, relation=INVERSE[program.relation])
    if kind in ("fewer", "smaller"):
        return replace(swapped, kind={"fewer": "more", "smaller": "larger"}[kind])
    if kind in ("equal", "same") and repr(program.other) < repr(program.subject):
        return swapped
    return program


@dataclass(frozen=True)
class Outcome:
    """What a program comes to on a scene.

    premise: whether everything it takes for granted is there. answer: None without premise.
    answers: all answers that are right; more than one where a phrase fits several things.
    """

    premise: bool
    answer: str | None = None
    answers: frozenset[str] = frozenset()


_FALSE_PREMISE = Outcome(False)


def acceptable(answers: frozenset[str]) -> frozenset[str]:
    """The answers and their synonyms."""
    return answers.union(*(SYNONYMS.get(answer, ()) for answer in answers))


def evaluate(program: Program, scene: Scene) -> Outcome:
    """The answer to the program on the scene, or a false premise."""
    if program.kind in ("scene_query", "scene_check"):
        assert program.attribute in SCENE_ATTRIBUTES
        value = getattr(scene, program.attribute)
        return (
            _certain(value) if program.kind == "scene_query" else _yes_no({value == program.value})
        )
    assert program.subject is not None
    first = denoted(program.subject, scene)
    if first is None:
        return _FALSE_PREMISE
    if program.kind == "exist":
        return _yes_no({bool(first)})
    if program.kind == "count":
        return _certain(str(len(first)))
    if program.kind in ("query", "check"):
        return _attribute(program, first)
    assert program.other is not None
    second = denoted(program.other, scene)
    if second is None:
        return _FALSE_PREMISE
    if program.kind in ("more", "equal"):
        more = program.kind == "more"
        return _yes_no({len(first) > len(second) if more else len(first) == len(second)})
    pairs = [(a, b) for a, b in product(first, second) if a is not b]
    if not pairs:
        return _FALSE_PREMISE
    if program.kind == "relate":
        assert program.relation is not None
        return _yes_no({any(holds(a, program.relation, b) for a, b in pairs)})
    if program.kind == "larger":
        return _yes_no({a.size == "large" and b.size == "small" for a, b in pairs})
    assert program.kind == "same"
    assert program.attribute is not None
    name = program.attribute
    return _yes_no({getattr(a, name) == getattr(b, name) for a, b in pairs})


def denoted(things: Things, scene: Scene) -> list[Thing] | None:
    """The things that a phrase denotes; None where its anchor is not there."""
    found = [thing for thing in scene.things if things.noun.matches(thing)]
    if things.extreme is not None:
        return _furthest(found, EXTREMES[things.extreme])
    if things.relation is None:
        return found
    assert things.anchor is not None
    anchors = [thing for thing in scene.things if things.anchor.matches(thing)]
    if not anchors:
        return None
    relation = things.relation
    return [
        thing
        for thing in found
        if any(holds(thing, relation, anchor) for anchor in anchors if anchor is not thing)
    ]


def holds(thing: Thing, relation: str, anchor: Thing) -> bool:
    """Whether `thing` is left, right, above or below of `anchor`, by more than the margin."""
    distance = {
        "left": anchor.x - thing.x,
        "right": thing.x - anchor.x,
        "above": anchor.y - thing.y,
        "below": thing.y - anchor.y,
    }
    return distance[relation] > MARGIN


def layout(program: Program) -> list[str]:
    """The expert layout for module networks, in reverse Polish (Hu et al. 2017).

    Tokens, with the attention maps they take: _Find 0, _Transform 1, _And 2 -> a map;
    _Scene 0, _Exist 1, _Count 1, _Describe 1, _MoreNum 2, _EqualNum 2, _SameProperty 2 -> answer.
    """
    if program.kind in ("scene_query", "scene_check"):
        return ["_Scene"]
    assert program.subject is not None
    first = _find(program.subject)
    if program.kind in ("exist", "count"):
        return [*first, "_Exist" if program.kind == "exist" else "_Count"]
    if program.kind in ("query", "check"):
        return [*first, "_Describe"]
    assert program.other is not None
    second = _find(program.other)
    if program.kind == "relate":
        return [*second, "_Transform", *first, "_And", "_Exist"]
    last = {"more": "_MoreNum", "equal": "_EqualNum"}.get(program.kind, "_SameProperty")
    return [*first, *second, last]


ARITIES = {
    "_Find": 0,
    "_Transform": 1,
    "_And": 2,
    "_Scene": 0,
    "_Exist": 1,
    "_Count": 1,
    "_Describe": 1,
    "_MoreNum": 2,
    "_EqualNum": 2,
    "_SameProperty": 2,
}


def _find(things: Things) -> list[str]:
    if things.relation is not None:
        return ["_Find", "_Transform", "_Find", "_And"]
    return ["_Find"] if things.extreme is None else ["_Find", "_Transform"]


def _attribute(program: Program, things: Sequence[Thing]) -> Outcome:
    if not things:
        return _FALSE_PREMISE
    assert program.attribute in THING_ATTRIBUTES
    values = [getattr(thing, program.attribute) for thing in things]
    if program.kind == "check":
        return _yes_no({value == program.value for value in values})
    return Outcome(True, values[0], frozenset(values))


def _furthest(things: list[Thing], direction: str) -> list[Thing]:
    """Those that nothing else among `things` is beyond; several where the margin cannot tell."""
    return [
        thing
        for thing in things
        if not any(holds(other, direction, thing) for other in things if other is not thing)
    ]


def _certain(answer: str) -> Outcome:
    return Outcome(True, answer, frozenset((answer,)))


def _yes_no(truths: set[bool]) -> Outcome:
    answers = frozenset("yes" if truth else "no" for truth in truths)
    return Outcome(True, "yes" if True in truths else "no", answers)
