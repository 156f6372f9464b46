"""The functional programs of CLEVR's questions: normal form, execution on a scene, layouts.

Johnson et al., CLEVR, CVPR 2017, section 3 and appendix. A program is a tree here. Filters belong
to the function whose things they select, so that "small cube" and "cube that is small" are equal.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from ivqa.data.validation import shown

ATTRIBUTES = ("size", "color", "material", "shape")
RELATIONS = ("left", "right", "behind", "front")

# The types of the inputs and of the output of each function, without filters.
FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "scene": ((), "things"),
    "relate": (("thing",), "things"),
    "union": (("things", "things"), "things"),
    "intersect": (("things", "things"), "things"),
    "unique": (("things",), "thing"),
    "exist": (("things",), "answer"),
    "count": (("things",), "number"),
    "equal_integer": (("number", "number"), "answer"),
    "less_than": (("number", "number"), "answer"),
    "greater_than": (("number", "number"), "answer"),
    **{f"same_{name}": (("thing",), "things") for name in ATTRIBUTES},
    **{f"query_{name}": (("thing",), name) for name in ATTRIBUTES},
    **{f"equal_{name}": ((name, name), "answer") for name in ATTRIBUTES},
}
_TERMINAL = ("answer", "number", *ATTRIBUTES)


class Step(NamedTuple):
    """A function of a program, with the functions that give its inputs.

    Args:
        function: A key of `FUNCTIONS`.
        inputs: The functions that give its inputs.
        relation: The relation of "relate", else "".
        phrase: Attributes that select some of its things, as (attribute, value) in a fixed order;
            only where the output is a set of things.
    """

    function: str
    inputs: tuple["Step", ...] = ()
    relation: str = ""
    phrase: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ClevrScene:
    """The things in an image.

    Args:
        things: The attributes of each of the n things by name.
        related: For each relation, the n sets of things that are there, seen from thing i.
    """

    things: tuple[Mapping[str, str], ...]
    related: Mapping[str, tuple[frozenset[int], ...]]

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "ClevrScene":
        """Reads an entry of CLEVR_SPLIT_scenes.json, with "objects" and "relationships".

        Raises:
            ValueError: The entry lacks an attribute or a relation; the message names it.
        """
        things = record.get("objects")
        related = record.get("relationships")
        if not isinstance(things, list) or not isinstance(related, dict):
            raise ValueError("must have objects and relationships")
        for thing in things:
            for name in ATTRIBUTES:
                if not isinstance(thing, dict) or not isinstance(thing.get(name), str):
                    raise ValueError(f"an object has no {name}")
        numbers = range(len(things))
        for name in RELATIONS:
            sets = related.get(name, ())
            if len(sets) != len(things) or any(i not in numbers for row in sets for i in row):
                raise ValueError(f"relationships.{name} does not fit {len(things)} objects")
        return cls(
            tuple({name: thing[name] for name in ATTRIBUTES} for thing in things),
            {name: tuple(map(frozenset, related[name])) for name in RELATIONS},
        )


def program_of(steps: Sequence[Mapping[str, Any]]) -> Step:
    """Converts a program of CLEVR's files to a tree in its normal form; returns its last function.

    "less_than" becomes "greater_than" with its inputs exchanged. The steps {"function", "inputs",
    "value_inputs"} are in the order of computation; the last gives the answer. The names of CLEVR's
    generator, "type" and "side_inputs", are read, too.

    Raises:
        ValueError: A function is unknown or does not fit its inputs; the message names the step.

    Example:
        >>> program_of([
        ...     {"function": "scene", "inputs": [], "value_inputs": []},
        ...     {"function": "filter_shape", "inputs": [0], "value_inputs": ["cube"]},
        ...     {"function": "count", "inputs": [1], "value_inputs": []},
        ... ]).inputs
        (Step(function='scene', inputs=(), relation='', phrase=(('shape', 'cube'),)),)
    """
    nodes: list[Step] = []
    for number, step in enumerate(steps):
        try:
            name = step["function"] if "function" in step else step["type"]
            if any(not 0 <= i < number for i in step["inputs"]):
                raise ValueError("an input is not an earlier step")
            inputs = [nodes[i] for i in step["inputs"]]
            values = step.get("value_inputs", step.get("side_inputs")) or []
            nodes.append(_node(name, inputs, values))
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ValueError(f"step {number} is incomplete ({error!r})") from None
        except ValueError as error:
            raise ValueError(f"step {number}: {error}") from None
    if not nodes or FUNCTIONS[nodes[-1].function][1] not in _TERMINAL:
        raise ValueError("the last step gives no answer")
    return nodes[-1]


def fact_of(program: Step) -> Step:
    """The visual fact that a question states, equal for questions of equal meaning.

    It is the program with the inputs of functions such as "equal" and "union" in one order.
    """
    inputs = tuple(fact_of(step) for step in program.inputs)
    if program.function.startswith("equal_") or program.function in ("union", "intersect"):
        inputs = tuple(sorted(inputs))
    return program._replace(inputs=inputs)


def answers_of(program: Step, scene: ClevrScene) -> frozenset[str]:
    """Executes a program on a scene; returns the right answers.

    There are several where a phrase fits several things that must be one, and none where it fits no
    thing, a false premise.
    """
    return frozenset(str(text_of(value)) for value in _values(program, scene))


def text_of(answer: object) -> object:
    """An answer as text, such as "yes" for True and "2" for 2; another value as it is."""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    return str(answer) if isinstance(answer, int) else answer


def kind_of(program: Step) -> str:
    """The kind of a question in the tables of the paper, by the function that gives its answer.

    Example:
        >>> kind_of(Step("equal_size", (Step("query_size"), Step("query_size"))))
        'compare_attribute'
    """
    name = program.function
    if name in ("exist", "count"):
        return name
    if name.startswith("query_"):
        return "query_attribute"
    compared = name.removeprefix("equal_") in ATTRIBUTES
    return "compare_attribute" if compared else "compare_integer"


def layout_of(program: Step) -> list[str]:
    """The expert layout of a question for module networks (Hu et al., N2NMN, ICCV 2017).

    It has the names of modules in reverse Polish notation. A relation and "same" are _Transform; a
    phrase that selects from related things is _Find and _And.

    Example:
        >>> layout_of(Step("count", (Step("union", (Step("scene"), Step("scene"))),)))
        ['_Find', '_Find', '_Or', '_Count']
    """
    name = program.function
    single = {"exist": "_Exist", "count": "_Count"}
    if name in single or name.startswith("query_"):
        return [*_map_of(program.inputs[0]), single.get(name, "_Describe")]
    # The inputs of a comparison are numbers or attributes, whose things are compared.
    maps = [*_map_of(program.inputs[0].inputs[0]), *_map_of(program.inputs[1].inputs[0])]
    last = {"greater_than": "_MoreNum", "equal_integer": "_EqualNum"}.get(name, "_SameProperty")
    return [*maps, last]


def _node(name: str, inputs: list[Step], values: Sequence[str]) -> Step:
    if name.startswith("filter_"):
        attribute = name.removeprefix("filter_")
        if attribute not in ATTRIBUTES or len(inputs) != 1 or len(values) != 1:
            raise ValueError(f"{name} must have one input and one value")
        if FUNCTIONS[inputs[0].function][1] != "things":
            raise ValueError(f"{name} cannot select from {inputs[0].function}")
        phrase = {*inputs[0].phrase, (attribute, values[0])}
        return inputs[0]._replace(phrase=tuple(sorted(phrase)))
    if name not in FUNCTIONS:
        raise ValueError(f"the function {shown(name)} is unknown")
    kinds = tuple(FUNCTIONS[step.function][1] for step in inputs)
    if kinds != FUNCTIONS[name][0]:
        raise ValueError(f"{name} takes {FUNCTIONS[name][0]}, not {kinds}")
    relation = values[0] if name == "relate" else ""
    if name == "relate" and relation not in RELATIONS:
        raise ValueError(f"the relation {shown(relation)} is unknown")
    if name == "less_than":
        return Step("greater_than", tuple(reversed(inputs)))
    return Step(name, tuple(inputs), relation)


def _values(step: Step, scene: ClevrScene) -> Iterator[Any]:
    """All values of a function: one for each choice where "unique" meets several things."""
    for given in product(*(list(_values(source, scene)) for source in step.inputs)):
        if step.function == "unique":
            yield from given[0]
        elif FUNCTIONS[step.function][1] == "things":
            phrase = {*step.phrase}
            found = _things(step, given, scene)
            yield frozenset(i for i in found if phrase <= scene.things[i].items())
        elif step.function.startswith("query_"):
            yield scene.things[given[0]][step.function.removeprefix("query_")]
        else:
            yield _COMPUTED[step.function](*given)


def _things(step: Step, given: tuple[Any, ...], scene: ClevrScene) -> frozenset[int]:
    """The things of a function before its phrase selects from them."""
    if step.function == "relate":
        return scene.related[step.relation][given[0]]
    if step.function == "union":
        return frozenset(given[0] | given[1])
    if step.function == "intersect":
        return frozenset(given[0] & given[1])
    everything = frozenset(range(len(scene.things)))
    if step.function == "scene":
        return everything
    name = step.function.removeprefix("same_")
    value = scene.things[given[0]][name]
    return frozenset(i for i in everything - {given[0]} if scene.things[i][name] == value)


_COMPUTED: dict[str, Callable[..., Any]] = {
    "count": len,
    "exist": bool,
    "greater_than": operator.gt,
    **{f"equal_{name}": operator.eq for name in ("integer", *ATTRIBUTES)},
}


def _map_of(step: Step) -> list[str]:
    """The modules that give the attention map of some things."""
    if step.function == "unique":
        return _map_of(step.inputs[0])
    if step.function == "scene":
        return ["_Find"]
    maps = [name for source in step.inputs for name in _map_of(source)]
    own = {"union": "_Or", "intersect": "_And"}.get(step.function, "_Transform")
    return [*maps, own, *(["_Find", "_And"] if step.phrase else [])]
