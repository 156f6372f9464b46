"""The meaning of a question: a functional program, and its answer on a scene.

`make` builds every program in a normal form. "Is the star right of the heart?" and "Is the heart
left of the star?" have one program, so questions of equal meaning compare equal.

Functional programs of questions: Johnson et al., CLEVR, CVPR 2017, section 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from ivqa.data.oracles import FALSE_PREMISE, Judgement
from ivqa.scenes.world import SCENE_ATTRIBUTES, THING_ATTRIBUTES, Scene, Thing, holds

INVERSE = {"left": "right", "right": "left", "above": "below", "below": "above"}
EXTREMES = {"leftmost": "left", "rightmost": "right", "highest": "above", "lowest": "below"}

# Other words for an answer. Simulated annotators give them, and `acceptable` accepts them.
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
    """What a noun phrase says about a thing, by `world.VALUES`; None where it does not say it."""

    shape: str | None = None
    color: str | None = None
    size: str | None = None
    pattern: str | None = None

    def matches(self, thing: "Thing | Noun") -> bool:
        """Whether a thing, or all that another phrase denotes, has every attribute it says."""
        return (
            self.shape in (None, thing.shape)
            and self.color in (None, thing.color)
            and self.size in (None, thing.size)
            and self.pattern in (None, thing.pattern)
        )


@dataclass(frozen=True)
class Things:
    """The things that a phrase denotes: a noun phrase, and where they are.

    Args:
        noun: The noun phrase.
        relation: "left", "right", "above" or "below": the things are there, seen from at least
            one thing that fits `anchor`; None without a relation.
        anchor: The noun phrase of the relation; None without a relation.
        extreme: A key of `EXTREMES`, for the thing that is furthest in a direction; else None.
    """

    noun: Noun
    relation: str | None = None
    anchor: Noun | None = None
    extreme: str | None = None


@dataclass(frozen=True)
class Program:
    """The meaning of a question. `make` builds it in its normal form.

    Args:
        kind: "exist", "count", "query", "check", "relate", "more", "equal", "same", "larger",
            "scene_query" or "scene_check".
        subject: The things that the question is about; None for questions about the scene.
        other: The second things of a comparison or a relation; else None.
        attribute: The attribute that is asked for, checked or compared; else None.
        value: The value that is checked ("check", "scene_check"); else None.
        relation: "left" or "above" ("relate"); else None.
    """

    kind: str
    subject: Things | None = None
    other: Things | None = None
    attribute: str | None = None
    value: str | None = None
    relation: str | None = None

    @property
    def answer_type(self) -> str:
        """The VQA answer type: "yes/no", "number" or "other"."""
        if self.kind == "count":
            return "number"
        return "other" if self.kind in ("query", "scene_query") else "yes/no"


def make(kind: str, **parts: object) -> Program:
    """Builds a program in its normal form.

    The normal form has the relations "left" and "above" only, the comparisons "more" and "larger"
    only, and the two parts of "equal" and "same" in a fixed order.

    Args:
        kind: A kind of `Program`, or "fewer" or "smaller".
        **parts: The other arguments of `Program`; `relation` may also be "right" or "below".

    Example:
        >>> star, heart = Things(Noun(shape="star")), Things(Noun(shape="heart"))
        >>> make("fewer", subject=star, other=heart) == make("more", subject=heart, other=star)
        True
    """
    program = Program(kind, **parts)  # type: ignore[arg-type]
    swapped = replace(program, subject=program.other, other=program.subject)
    if kind == "relate" and program.relation in ("right", "below"):
        return replace(swapped, relation=INVERSE[program.relation])
    if kind in ("fewer", "smaller"):
        return replace(swapped, kind={"fewer": "more", "smaller": "larger"}[kind])
    if kind in ("equal", "same") and repr(program.other) < repr(program.subject):
        return swapped
    return program


def acceptable(answers: frozenset[str]) -> frozenset[str]:
    """Adds the synonyms of answers of the grammar.

    Example:
        >>> sorted(acceptable(frozenset({"plain"})))
        ['none', 'plain', 'solid']
    """
    return answers.union(*(SYNONYMS.get(answer, ()) for answer in answers))


def evaluate(program: Program, scene: Scene) -> Judgement:
    """Answers a program on a scene; `acceptable` has all right answers, without synonyms.

    The premise is false where the question is about a thing that is not in the scene.
    """
    if program.kind in ("scene_query", "scene_check"):
        assert program.attribute in SCENE_ATTRIBUTES
        value = getattr(scene, program.attribute)
        return (
            _certain(value) if program.kind == "scene_query" else _yes_no({value == program.value})
        )
    assert program.subject is not None
    first = denoted(program.subject, scene)
    if first is None:
        return FALSE_PREMISE
    # No things is an answer to "exist" and "count", and a false premise for all others.
    if program.kind == "exist":
        return _yes_no({bool(first)})
    if program.kind == "count":
        return _certain(str(len(first)))
    if program.kind in ("query", "check"):
        return _attribute(program, first)
    assert program.other is not None
    second = denoted(program.other, scene)
    if second is None:
        return FALSE_PREMISE
    if program.kind in ("more", "equal"):
        more = program.kind == "more"
        return _yes_no({len(first) > len(second) if more else len(first) == len(second)})
    # From here on, the question is about two different things.
    pairs = [(a, b) for a, b in product(first, second) if a is not b]
    if not pairs:
        return FALSE_PREMISE
    if program.kind == "relate":
        assert program.relation is not None
        return _yes_no({any(holds(a, program.relation, b) for a, b in pairs)})
    if program.kind == "larger":
        # With two sizes, "larger" means large against small.
        return _yes_no({a.size == "large" and b.size == "small" for a, b in pairs})
    assert program.kind == "same"
    assert program.attribute is not None
    name = program.attribute
    return _yes_no({getattr(a, name) == getattr(b, name) for a, b in pairs})


def denoted(things: Things, scene: Scene) -> list[Thing] | None:
    """The things of a scene that a phrase denotes; None where none fits the relation's anchor."""
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


def _attribute(program: Program, things: Sequence[Thing]) -> Judgement:
    if not things:
        return FALSE_PREMISE
    assert program.attribute in THING_ATTRIBUTES
    values = [getattr(thing, program.attribute) for thing in things]
    if program.kind == "check":
        return _yes_no({value == program.value for value in values})
    return Judgement(True, True, values[0], frozenset(values))


def _furthest(things: list[Thing], direction: str) -> list[Thing]:
    """The things furthest in the direction; several where they differ by less than the margin."""
    return [
        thing
        for thing in things
        if not any(holds(other, direction, thing) for other in things if other is not thing)
    ]


def _certain(answer: str) -> Judgement:
    return Judgement(True, True, answer, frozenset((answer,)))


def _yes_no(truths: set[bool]) -> Judgement:
    answers = frozenset("yes" if truth else "no" for truth in truths)
    return Judgement(True, True, "yes" if True in truths else "no", answers)


def layout(program: Program) -> list[str]:
    """The expert layout of a question for module networks (Hu et al., N2NMN, ICCV 2017).

    These modules give an attention map: _Find takes no map, _Transform one, _And two. These give
    the answer: _Scene takes no map; _Exist, _Count and _Describe one; _MoreNum, _EqualNum and
    _SameProperty two.

    Returns:
        Names of modules in reverse Polish notation; the last one gives the answer.

    Example:
        >>> from ivqa.scenes.programs import Noun
        >>> layout(Program("count", Things(Noun(shape="star"))))
        ['_Find', '_Count']
    """
    if program.kind in ("scene_query", "scene_check"):
        return ["_Scene"]
    assert program.subject is not None
    first = _map_of(program.subject)
    if program.kind in ("exist", "count"):
        return [*first, "_Exist" if program.kind == "exist" else "_Count"]
    if program.kind in ("query", "check"):
        return [*first, "_Describe"]
    assert program.other is not None
    second = _map_of(program.other)
    if program.kind == "relate":
        # From `other` in the direction of the relation, then intersected with the subject.
        return [*second, "_Transform", *first, "_And", "_Exist"]
    last = {"more": "_MoreNum", "equal": "_EqualNum"}.get(program.kind, "_SameProperty")
    return [*first, *second, last]


def _map_of(things: Things) -> list[str]:
    """The modules that give the attention map of a phrase."""
    if things.relation is not None:
        return ["_Find", "_Transform", "_Find", "_And"]
    return ["_Find"] if things.extreme is None else ["_Find", "_Transform"]
