"""Beliefs about one image that no image can satisfy together: the "doublethink" of [iVQA 6].

Exact on scenes: a belief is turned into what must hold if it is true, as bounds on how many things
fit a phrase, order of two such numbers, and attributes of the whole scene. Two beliefs contradict
each other where these exclude each other; two true beliefs never do.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ivqa.scenes import parse
from ivqa.scenes.programs import SYNONYMS, Program, Things

_UNBOUNDED = 10**6
_MEANT = {synonym: value for value, synonyms in SYNONYMS.items() for synonym in synonyms}
# Orders of two numbers that exclude each other: (first, second) compared with 0.
_ORDERS = {"more": {1}, "not more": {-1, 0}, "equal": {0}, "not equal": {-1, 1}}


@dataclass
class Requirements:
    """What must hold for a belief to be true.

    counts: (things, at least, at most). orders: (a, b, signs that |a| - |b| may have).
    scene: (attribute, value, whether it has that value).
    """

    counts: list[tuple[Things, int, int]] = field(default_factory=list)
    orders: list[tuple[Things, Things, frozenset[int]]] = field(default_factory=list)
    scene: list[tuple[str, str, bool]] = field(default_factory=list)


def requirements(question: str, answer: str) -> Requirements:
    """What an image must be like for `answer` to be the right answer to `question`.

    Empty where the question is not understood or the answer says nothing certain.
    """
    program = parse(question)
    needed = Requirements()
    answer = _MEANT.get(answer, answer)
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
    """Whether each (question, answer) of one image contradicts another one of them."""
    needed = [requirements(question, answer) for question, answer in beliefs]
    clash = [False] * len(beliefs)

    def note(first: int, second: int) -> None:
        if first != second:
            clash[first] = clash[second] = True

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
            turned = repr(second) < repr(first)
            key = (second, first) if turned else (first, second)
            orders[key].append((at, frozenset(-s for s in signs) if turned else signs))

    for part, bounds in lower.items():
        for whole, limits in upper.items():
            if not _within(part, whole):
                continue
            for at, least in bounds:
                for other, most in limits:
                    if least > most:
                        note(at, other)
    for claims in scene.values():
        for at, value, holds in claims:
            for other, their, they in claims:
                if (value == their and holds != they) or (value != their and holds and they):
                    note(at, other)
    for compared in orders.values():
        for at, signs in compared:
            for other, theirs in compared:
                if not signs & theirs:
                    note(at, other)
    return clash


def _about_things(program: Program, answer: str, needed: Requirements) -> None:
    subject, other = program.subject, program.other
    assert subject is not None
    truth = {"yes": True, "no": False}.get(answer)
    if program.kind == "exist" and truth is not None:
        needed.counts.append((subject, 1, _UNBOUNDED) if truth else (subject, 0, 0))
    elif program.kind == "count" and answer.isdecimal():
        needed.counts.append((subject, int(answer), int(answer)))
    elif program.kind in ("query", "check"):
        needed.counts.append((subject, 1, _UNBOUNDED))
        value = answer if program.kind == "query" else program.value
        free = subject.extreme is None and getattr(subject.noun, str(program.attribute)) is None
        if free and (program.kind == "query" or truth):
            noun = replace(subject.noun, **{str(program.attribute): value})
            needed.counts.append((replace(subject, noun=noun), 1, _UNBOUNDED))
    elif program.kind in ("more", "equal") and truth is not None and other is not None:
        kind = program.kind if truth else f"not {program.kind}"
        needed.orders.append((subject, other, frozenset(_ORDERS[kind])))
    elif other is not None and program.kind in ("relate", "same", "larger"):
        needed.counts += [(subject, 1, _UNBOUNDED), (other, 1, _UNBOUNDED)]
        plain = subject.relation is None and subject.extreme is None
        plain &= other.relation is None and other.extreme is None
        if program.kind == "relate" and truth is not None and plain:
            related = Things(subject.noun, program.relation, other.noun)
            needed.counts.append((related, 1, _UNBOUNDED) if truth else (related, 0, 0))
    # Whatever is said of things beside an anchor takes the anchor for granted.
    for things in (subject, other):
        if things is not None and things.anchor is not None:
            needed.counts.append((Things(things.anchor), 1, _UNBOUNDED))


def _within(part: Things, whole: Things) -> bool:
    """Whether whatever fits `part` fits `whole`, in every scene."""
    if whole.extreme is not None:
        return part == whole
    narrower = all(
        value is None or value == getattr(part.noun, name)
        for name, value in vars(whole.noun).items()
    )
    if not narrower:
        return False
    if whole.relation is None:
        return True
    if part.relation != whole.relation or part.anchor is None or whole.anchor is None:
        return False
    return all(
        value is None or value == getattr(part.anchor, name)
        for name, value in vars(whole.anchor).items()
    )
