"""Executes GQA's programs on scene graphs, as far as these decide the answer.

A scene graph lists what annotators saw. An object that it does not list counts as absent, as in
GQA's own questions. An attribute or a relation that it does not list may hold all the same; then
the answer is undecided, unless the graph has another value of the same kind, such as a colour.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ivqa.data.formats.gqa_graphs import GraphObject, SceneGraph
from ivqa.data.formats.gqa_programs import Step, numbers_of
from ivqa.data.oracles import FALSE_PREMISE, NOT_UNDERSTOOD, Judgement

_NOT = re.compile(r"not\((.*)\)")
_OPPOSITE = {"to the left of": "to the right of", "to the right of": "to the left of"}
# An object whose centre is within this share of the width or height of a side is on that side.
# Elsewhere the side is undecided, because GQA's own rule is not published.
_NEAR = 0.35
# Kinds of attributes of which an object has one at a time.
_EXCLUSIVE = ("color", "material", "size", "shape", "length", "height", "width", "age", "gender")
_SCENE_KINDS = {"place": "location", "room": "location", "location": "location"}


class _UndecidedError(Exception):
    """The scene graph does not decide the answer."""


class _PremiseError(Exception):
    """An object that the question presupposes is not in the scene graph."""


@dataclass
class GQAWords:
    """What words mean, learned from questions whose programs refer to objects.

    Args:
        kinds: The names of objects that each word refers to: "animal" to "dog" and "duck".
        values: The attributes of each kind, such as those of "color".
    """

    kinds: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    values: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def learn(
        self, semantic: Sequence[Mapping[str, Any]], answer: str | None, graph: SceneGraph
    ) -> None:
        """Learns from the published program and the answer of a question about a scene graph."""
        for step in semantic:
            operation, _, detail = step["operation"].partition(" ")
            argument = step["argument"]
            if operation in ("filter", "verify", "choose") and detail not in ("", "rel", "name"):
                named = _NOT.sub(r"\1", argument)
                self.values[detail].update(named.split("|"))
            elif operation == "query" and answer is not None and argument != "name":
                self.values[argument].add(answer)
            word = argument.split(",")[0].split(" (")[0].strip()
            if operation in ("select", "relate"):
                found = (graph.objects.get(number) for number in numbers_of(argument))
                self.kinds[word].update(one.name for one in found if one is not None)

    def fits(self, name: str, word: str) -> bool:
        """Whether an object of a name is meant by a word; "_" means every object."""
        return word in ("_", name) or name in self.kinds.get(word, ())


@dataclass(frozen=True)
class _Objects:
    """Objects that are certainly meant, and whether others may be."""

    certain: tuple[GraphObject, ...]
    perhaps: bool = False


def judge(program: Step, graph: SceneGraph, words: GQAWords) -> Judgement:
    """Judges a question with a program about the photograph of a scene graph.

    Not understood where the graph does not decide the answer. A word that fits several objects
    makes the answers of all acceptable.
    """
    execution = _Execution(graph, words)
    try:
        answers = execution.answers(program)
    except _PremiseError:
        return FALSE_PREMISE
    except _UndecidedError:
        return NOT_UNDERSTOOD
    return Judgement(True, True, min(answers), frozenset(answers))


class _Execution:
    """The operations on one scene graph."""

    def __init__(self, graph: SceneGraph, words: GQAWords) -> None:
        self.graph = graph
        self.words = words

    def answers(self, step: Step) -> set[str]:
        """All right answers of a program."""
        if step.operation in ("and", "or"):
            parts = [self._truth(source) for source in step.inputs]
            return _yes_no(all(parts) if step.operation == "and" else any(parts))
        if step.operation == "exist":
            found = self._objects(step.inputs[0], needed=False)
            if not found.certain and found.perhaps:
                raise _UndecidedError
            return _yes_no(bool(found.certain))
        if step.operation in ("same", "different"):
            return _yes_no(self._equal(step) == (step.operation == "same"))
        if len(step.inputs) != 1 or step.operation == "common":
            raise _UndecidedError  # which is healthier, larger, ...: not in a scene graph
        if step.inputs[0].argument == "scene" and step.inputs[0].operation == "select":
            return set(self._of_scene(step))
        meant = self._objects(step.inputs[0], needed=True)
        if not meant.certain:
            raise _UndecidedError if meant.perhaps else _PremiseError
        return {answer for one in meant.certain for answer in self._of_object(step, one)}

    def _truth(self, step: Step) -> bool:
        answers = self.answers(step)
        if len(answers) > 1:
            raise _UndecidedError
        return answers == {"yes"}

    def _objects(self, step: Step, needed: bool) -> _Objects:
        """The objects of a selection; needed: whether a name without object is a false premise."""
        if step.operation == "select":
            return _Objects(self._named(step.argument, needed))
        if len(step.inputs) != 1:
            raise _UndecidedError
        # What a relation or a filter refers to must exist, also inside of "exist".
        base = self._objects(step.inputs[0], needed=needed or step.operation == "relate")
        if step.operation == "filter":
            return self._filtered(step, base)
        if step.operation == "relate":
            return self._related(step.argument, base, needed)
        raise _UndecidedError

    def _named(self, word: str, needed: bool) -> tuple[GraphObject, ...]:
        objects = self.graph.objects.values()
        found = tuple(one for one in objects if self.words.fits(one.name, word))
        if not found and needed:
            raise _PremiseError
        return found

    def _filtered(self, step: Step, base: _Objects) -> _Objects:
        negated = _NOT.fullmatch(step.argument)
        value = negated[1] if negated else step.argument
        verdicts = [(one, self._has(one, step.detail, value)) for one in base.certain]
        wanted = not negated
        certain = tuple(one for one, verdict in verdicts if verdict is wanted)
        return _Objects(certain, base.perhaps or any(verdict is None for _, verdict in verdicts))

    def _related(self, argument: str, base: _Objects, needed: bool) -> _Objects:
        word, relation, side = _parts(argument)
        if not base.certain and not base.perhaps:
            raise _PremiseError
        targets = self._named(word, needed)
        certain = tuple(
            one
            for one in targets
            if any(self._linked(one, relation, other, side) for other in base.certain)
        )
        # A relation that the graph does not list may hold between objects that are there.
        return _Objects(certain, perhaps=base.perhaps or bool(targets))

    def _linked(self, one: GraphObject, relation: str, other: GraphObject, side: str) -> bool:
        """Whether the graph lists a relation; side "s": `one` is its subject, "o": its object."""
        subject, target = (one, other) if side == "s" else (other, one)
        return any(
            name == relation and self.graph.objects.get(number) is target
            for name, number in subject.relations
        )

    def _has(self, one: GraphObject, kind: str, value: str) -> bool | None:
        """Whether an object has an attribute; None where the graph does not decide it."""
        if kind in ("hposition", "vposition"):
            side = _side(one, kind)
            return None if side is None else side == value
        if value in one.attributes:
            return True
        other = one.attributes & (self.words.values.get(kind, set()) - {value})
        return False if other and kind in _EXCLUSIVE else None

    def _of_object(self, step: Step, one: GraphObject) -> Collection[str]:
        if step.operation == "query":
            return self._queried(step.argument, one)
        if step.operation == "verify" and step.detail == "rel":
            return _yes_no(self._verified(step.argument, one))
        if step.operation == "choose" and step.detail == "rel":
            return self._chosen_relation(step.argument, one)
        if step.operation == "choose":
            options = step.argument.split("|")
            if step.detail == "name":
                fitting = [option for option in options if self.words.fits(one.name, option)]
            else:
                fitting = [option for option in options if self._has(one, step.detail, option)]
            return _only(fitting)
        if step.operation == "verify":
            verdict = self._has(one, step.detail, step.argument)
            if verdict is None:
                raise _UndecidedError
            return _yes_no(verdict)
        raise _UndecidedError

    def _queried(self, kind: str, one: GraphObject) -> Collection[str]:
        if kind == "name":
            return [one.name]
        if kind in ("hposition", "vposition"):
            side = _side(one, kind)
            return _only([side] if side else [])
        found = one.attributes & self.words.values.get(kind, set())
        if not found:
            raise _UndecidedError
        return found

    def _verified(self, argument: str, one: GraphObject) -> bool:
        word, relation, side = _parts(argument)
        others = self._named(word, needed=False)
        # `one` is the other side of the relation than the word.
        if any(self._linked(other, relation, one, side) for other in others):
            return True
        opposite = _OPPOSITE.get(relation, "")
        if all(self._linked(other, opposite, one, side) for other in others):
            return False  # also where there is no such object
        raise _UndecidedError

    def _chosen_relation(self, argument: str, one: GraphObject) -> Collection[str]:
        word, relations, side = _parts(argument)
        others = self._named(word, needed=True)
        chosen = _only(
            [
                relation
                for relation in relations.split("|")
                if any(self._linked(other, relation, one, side) for other in others)
            ]
        )
        # The published answers are "left" and "right".
        return {relation.removeprefix("to the ").removesuffix(" of") for relation in chosen}

    def _equal(self, step: Step) -> bool:
        """Whether the objects of one or two selections share an attribute of a kind."""
        kind = step.detail or step.argument
        meant = [self._objects(source, needed=True) for source in step.inputs]
        if any(found.perhaps for found in meant):
            raise _UndecidedError
        if not all(found.certain for found in meant):
            raise _PremiseError
        if len(meant) > 1 and any(len(found.certain) > 1 for found in meant):
            raise _UndecidedError
        objects = [one for found in meant for one in found.certain]
        known = [one.attributes & self.words.values.get(kind, set()) for one in objects]
        if len(objects) < 2 or any(len(values) != 1 for values in known):
            raise _UndecidedError
        return all(values == known[0] for values in known)

    def _of_scene(self, step: Step) -> Collection[str]:
        kind = step.argument if step.operation == "query" else step.detail
        value = self.graph.scene.get(_SCENE_KINDS.get(kind, kind))
        if value is None:
            raise _UndecidedError
        if step.operation == "query":
            return {value}
        if step.operation == "choose":
            return _only([option for option in step.argument.split("|") if option == value])
        if step.operation == "verify" and step.argument == value:
            return {"yes"}
        raise _UndecidedError  # "kitchen" does not exclude "indoors"


def _parts(argument: str) -> tuple[str, str, str]:
    """Word, relation and side of "book,to the left of,s"."""
    word, _, rest = argument.partition(",")
    relation, _, side = rest.rpartition(",")
    if side not in ("s", "o"):
        raise _UndecidedError
    return word, relation, side


def _side(one: GraphObject, kind: str) -> str | None:
    if one.center is None:
        return None
    place = one.center[0 if kind == "hposition" else 1]
    low, high = ("left", "right") if kind == "hposition" else ("top", "bottom")
    if place <= _NEAR:
        return low
    return high if place >= 1 - _NEAR else None


def _only(options: Sequence[str]) -> list[str]:
    if len(options) != 1:
        raise _UndecidedError
    return list(options)


def _yes_no(truth: bool) -> set[str]:
    return {"yes" if truth else "no"}
