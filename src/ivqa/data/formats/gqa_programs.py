"""The functional programs of GQA's questions, and their layouts (Hudson and Manning, CVPR 2019)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ivqa.data.validation import shown

OPERATIONS = (
    "select", "relate", "filter", "query", "verify", "choose", "exist", "and", "or", "same",
    "different", "common",
)  # fmt: skip
# The numbers of objects after an argument: "bed (1026412)", "dishwasher (-) ".
_FINAL = ("exist", "query: name", "choose name")  # steps that only ask for the answer
_NUMBERS = re.compile(r"\s*\(([-\d, ]*)\)\s*$")


class Step(NamedTuple):
    """An operation of a program, with the operations that give its inputs.

    Args:
        operation: One of OPERATIONS.
        detail: What follows it, such as "color" in "verify color" and "rel" in "verify rel".
        argument: Its argument without numbers of objects, such as "boat,to the left of,s".
        inputs: The operations that give its inputs.
    """

    operation: str
    detail: str
    argument: str
    inputs: tuple["Step", ...] = ()


def program_of(semantic: Sequence[Mapping[str, Any]]) -> Step:
    """Converts a program of GQA's files to a tree without numbers of objects: its last step.

    The steps {"operation", "argument", "dependencies"} are in the order of computation; the last
    gives the answer.

    Raises:
        ValueError: An operation is unknown or incomplete; the message names the step.

    Example:
        >>> program_of([
        ...     {"operation": "select", "argument": "belt (699899)", "dependencies": []},
        ...     {"operation": "verify color", "argument": "tan", "dependencies": [0]},
        ... ]).inputs
        (Step(operation='select', detail='', argument='belt', inputs=()),)
    """
    nodes: list[Step] = []
    for number, step in enumerate(semantic):
        try:
            operation, _, detail = step["operation"].partition(" ")
            earlier = list(step["dependencies"])
            argument = _NUMBERS.sub("", step["argument"]).strip()
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"step {number} is incomplete ({error!r})") from None
        if operation not in OPERATIONS:
            raise ValueError(f"step {number}: the operation {shown(step['operation'])} is unknown")
        if any(type(i) is not int or not 0 <= i < number for i in earlier):
            raise ValueError(f"step {number}: a dependency is not an earlier step")
        if bool(earlier) == (operation == "select"):
            raise ValueError(f"step {number}: {operation} has a wrong number of dependencies")
        nodes.append(Step(operation, detail, argument, tuple(nodes[i] for i in earlier)))
    if not nodes or nodes[-1].operation in ("select", "relate", "filter"):
        raise ValueError("the last step gives no answer")
    return nodes[-1]


def reasoning_steps(semantic: Sequence[Mapping[str, Any]]) -> int:
    """Counts the steps of a program as eval.py does: without those that only ask for the answer."""
    texts = [f"{step['operation']}: {step['argument']}" for step in semantic]
    return sum(not any(one in text for one in _FINAL) for text in texts)


def numbers_of(argument: str) -> list[str]:
    """Returns the numbers of the objects that an argument of GQA's files refers to.

    Example:
        >>> numbers_of("bed (1026412)"), numbers_of("dishwasher (-) "), numbers_of("scene")
        (['1026412'], [], [])
    """
    found = _NUMBERS.search(argument)
    return re.findall(r"\d+", found[1]) if found else []


def layout_of(program: Step) -> list[str]:
    """A layout of a question for module networks (Hu et al., N2NMN, ICCV 2017).

    It has the names of modules in reverse Polish notation. A selection with its filters is one
    _Find; a relation is _Transform, followed by _Find and _And where it names an object. Questions
    about one object end with _Describe or _Exist, questions about two (comparisons, "and", "or")
    with _SameProperty, questions about the scene are _Scene.

    Example:
        >>> near = Step("relate", "", "boat,near,s", (Step("select", "", "flag"),))
        >>> layout_of(Step("query", "", "color", (near,)))
        ['_Find', '_Transform', '_Find', '_And', '_Describe']
    """
    maps = [name for step in program.inputs for name in _map_of(step)]
    number = maps.count("_Find") - maps.count("_And")
    if number == 0:
        return ["_Scene"]
    if number == 1:
        return [*maps, "_Exist" if program.operation == "exist" else "_Describe"]
    return [*maps, *["_And"] * (number - 2), "_SameProperty"]


def _map_of(step: Step) -> list[str]:
    if step.operation == "select":
        return [] if step.argument == "scene" else ["_Find"]
    maps = [name for source in step.inputs for name in _map_of(source)]
    if step.operation == "relate":
        named = not step.argument.startswith("_,")
        return [*maps, "_Transform", *(["_Find", "_And"] if named else [])]
    if (
        step.operation == "filter"
        and step.inputs[0].operation == "relate"
        and maps[-1:] != ["_And"]
    ):
        return [*maps, "_Find", "_And"]
    return maps
