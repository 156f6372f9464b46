"""Values and annotations of a configuration in words, for messages."""

import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Len, MultipleOf

_BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
_LONGEST_SHOWN = 300  # characters of a value in a message; long enough for paths


def description(annotation: Any) -> str:
    """Describes the values that an annotation allows, as a phrase that completes "must be".

    >>> from ivqa.ranges import Share
    >>> description(Share | None), description(Literal["prior", "none"])
    ('a number from 0 to 1 or null', 'prior or none')
    """
    if get_origin(annotation) is Annotated:
        base, *limits = get_args(annotation)
        return description(base) + _limits(limits)
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(description, get_args(annotation))))
    if get_origin(annotation) is Literal:
        *first, last = (shown(value) for value in get_args(annotation))
        return f"{', '.join(first)} or {last}" if first else last
    kind = get_origin(annotation) or annotation
    words = {
        int: "an integer",
        float: "a number",
        bool: "true or false",
        str: "text",
        type(None): "null",
    }
    if kind in words:
        return words[kind]
    if kind is tuple and Ellipsis not in get_args(annotation):
        return f"a list of {len(get_args(annotation))} values"
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a mapping of names to values"
    if isinstance(kind, type) and issubclass(kind, Sequence):
        return "a list"
    name = getattr(kind, "__name__", str(kind))
    return "text" if name == "Path" else f"a component with a _target_ ({name})"


def shown(value: Any) -> str:
    """Formats a plain value as on the command line, shortened to 300 characters.

    >>> shown(None), shown(True), shown([1.5, "a"]), shown(float("nan"))
    ('null', 'true', '[1.5,a]', 'nan')
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        text = f"[{','.join(map(shown, value))}]"
    elif isinstance(value, dict):
        text = f"{{{','.join(f'{key}:{shown(item)}' for key, item in value.items())}}}"
    else:
        text = str(value) or "''"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def _limits(limits: Sequence[Any]) -> str:
    """Describes the constraints in `Annotated`: " from 0 to 1", " above 0 and divisible by 4"."""
    words = []
    bounds = {name: getattr(limit, name) for limit in limits for name in _BOUNDS
              if getattr(limit, name, None) is not None}  # fmt: skip
    if {"ge", "le"} <= bounds.keys():
        words.append(f"from {bounds.pop('ge'):,} to {bounds.pop('le'):,}")
    words += [f"{_BOUNDS[name]} {bound:,}" for name, bound in bounds.items()]
    for limit in limits:
        if isinstance(limit, MultipleOf):
            words.append(f"divisible by {limit.multiple_of}")
        elif isinstance(limit, Len) and limit.min_length == limit.max_length:
            words.append(f"of {limit.min_length} values")
        elif isinstance(limit, Len):
            words.append("that is not empty")
    return f" {' and '.join(words)}" if words else ""
