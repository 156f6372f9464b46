"""Which beliefs about a scene contradict each other: the reference for `ivqa.logic`.

Exact on scenes, whose grammar it parses. Each belief is translated into the conditions under which
it is true: bounds on the number of things that match a phrase, comparisons of two such numbers, and
attributes of the whole scene. Two beliefs contradict each other if their conditions exclude each
other, so two true beliefs never do.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ivqa.scenes import parse
from ivqa.scenes.programs import SYNONYMS, Program, Things

# More things than any scene has.
_UNBOUNDED = 10**6
_VALUE_OF_SYNONYM = {synonym: value for value, synonyms in SYNONYMS.items() for synonym in synonyms}
# The signs that |first| - |second| may have under each comparison.
_ALLOWED_SIGNS = {"more": {1}, "not more": {-1, 0}, "equal": {0}, "not equal": {-1, 1}}


@dataclass
class Requirements:
    """The conditions under which a belief is true.

    Args:
        counts: (things, least number, greatest number).
        orders: (a, b, signs that |a| - |b| may have).
        scene: (attribute, value, whether the scene has that value).
    """

    counts: list[tuple[Things, int, int]] = field(default_factory=list)
    orders: list[tuple[Things, Things, frozenset[int]]] = field(default_factory=list)
    scene: list[tuple[str, str, bool]] = field(default_factory=list)


def requirements(question: str, answer: str) -> Requirements:
    """Translates a belief into conditions on the scene.

    Args:
        question: A question of the grammar of the scenes.
        answer: Its answer.

    Returns:
        What holds in every scene where `answer` is right. Empty if the question is not understood
        or nothing certain follows from the answer.

    Example:
        >>> requirements("Is it raining?", "no").scene
        [('weather', 'rainy', False)]
    """
    program = parse(question)
    needed = Requirements()
    # Programs hold values; an answer may be a synonym of one.
    answer = _VALUE_OF_SYNONYM.get(answer, answer)
    if program is None:
        return needed
    if program.kind == "scene_query":
        needed.scene.append((str(program.attribute), answer, True))
    elif program.kind == "scene_check":
        if answer in ("yes", "no"):
            needed.scene.append((str(program.attribute), str(program.value), answer == "yes"))
    else:
        _about_things(program, answer, needed)
    return needed


def contradicting(beliefs: Sequence[tuple[str, str]]) -> list[bool]:
    """Finds the beliefs about one image that contradict another one.

    Args:
        beliefs: N (question, answer) pairs about one image.

    Returns:
        N flags: whether the belief contradicts another belief of the list.

    Example:
        >>> contradicting([("Is there a star?", "no"), ("What color is the star?", "red")])
        [True, True]
    """
    needed = [requirements(question, answer) for question, answer in beliefs]
    clashes = [False] * len(beliefs)

    def mark(first: int, second: int) -> None:
        if first != second:
            clashes[first] = clashes[second] = True

    lower: dict[Things, list[tuple[int, int]]] = defaultdict(list)
    upper: dict[Things, list[tuple[int, int]]] = defaultdict(list)
    scene: dict[str, list[tuple[int, str, bool]]] = defaultdict(list)
    orders: dict[tuple[Things, Things], list[tuple[int, frozenset[int]]]] = defaultdict(list)
    for at, need in enumerate(needed):
        for things, least, most in need.counts:
            if least > 0:
                lower[things].append((at, least))
            if most < _UNBOUNDED:
                upper[things].append((at, most))
        for attribute, value, holds in need.scene:
            scene[attribute].append((at, value, holds))
        for first, second, signs in need.orders:
            # Both orders of the same two things share one key.
            swapped = repr(second) < repr(first)
            key = (second, first) if swapped else (first, second)
            orders[key].append((at, frozenset(-s for s in signs) if swapped else signs))

    # |part| >= least and |whole| <= most exclude each other if least > most.
    for part, bounds in lower.items():
        for whole, limits in upper.items():
            if not _within(part, whole):
                continue
            for at, least in bounds:
                for other, most in limits:
                    if least > most:
                        mark(at, other)
    for claims in scene.values():
        for at, value, holds in claims:
            for other, other_value, other_holds in claims:
                opposite = value == other_value and holds != other_holds
                two_values = value != other_value and holds and other_holds
                if opposite or two_values:
                    mark(at, other)
    for compared in orders.values():
        for at, signs in compared:
            for other, other_signs in compared:
                if not signs & other_signs:
                    mark(at, other)
    return clashes


def _about_things(program: Program, answer: str, needed: Requirements) -> None:
    """Adds the conditions of a program about things to `needed`."""
    subject, other = program.subject, program.other
    assert subject is not None
    truth = {"yes": True, "no": False}.get(answer)
    if program.kind == "exist" and truth is not None:
        needed.counts.append((subject, 1, _UNBOUNDED) if truth else (subject, 0, 0))
    elif program.kind == "count" and answer.isdecimal():
        needed.counts.append((subject, int(answer), int(answer)))
    elif program.kind in ("query", "check"):
        # A query or a check presupposes its subject, whatever the answer.
        needed.counts.append((subject, 1, _UNBOUNDED))
        value = answer if program.kind == "query" else program.value
        # The answer narrows the phrase only if the phrase leaves the attribute open.
        free = subject.extreme is None and getattr(subject.noun, str(program.attribute)) is None
        if free and (program.kind == "query" or truth):
            noun = replace(subject.noun, **{str(program.attribute): value})
            needed.counts.append((replace(subject, noun=noun), 1, _UNBOUNDED))
    elif program.kind in ("more", "equal") and truth is not None and other is not None:
        kind = program.kind if truth else f"not {program.kind}"
        needed.orders.append((subject, other, frozenset(_ALLOWED_SIGNS[kind])))
    elif other is not None and program.kind in ("relate", "same", "larger"):
        # These kinds presuppose both of their things.
        needed.counts += [(subject, 1, _UNBOUNDED), (other, 1, _UNBOUNDED)]
        # `Things` has one relation and a plain anchor, so only plain phrases can be related in it.
        plain = subject.relation is None and subject.extreme is None
        plain &= other.relation is None and other.extreme is None
        if program.kind == "relate" and truth is not None and plain:
            related = Things(subject.noun, program.relation, other.noun)
            needed.counts.append((related, 1, _UNBOUNDED) if truth else (related, 0, 0))
    # A phrase with an anchor, such as "left of the star", presupposes the anchor.
    for things in (subject, other):
        if things is not None and things.anchor is not None:
            needed.counts.append((Things(things.anchor), 1, _UNBOUNDED))


def _within(part: Things, whole: Things) -> bool:
    """Whether everything that matches `part` matches `whole`, in every scene."""
    # Which star is leftmost depends on the whole scene; only the same phrase is surely within it.
    if whole.extreme is not None:
        return part == whole
    if not whole.noun.matches(part.noun):
        return False
    if whole.relation is None:
        return True
    if part.relation != whole.relation or part.anchor is None or whole.anchor is None:
        return False
    return whole.anchor.matches(part.anchor)
