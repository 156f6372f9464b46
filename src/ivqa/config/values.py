"""Invalid values of a configuration: each value is validated against a type and a range.

In a node with a `_target_` they come from the annotation of the argument (`ivqa.ranges`,
`ivqa.store.torch_arguments`), in other nodes from `ivqa.config.keys`.
"""

import json
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Union, get_args, get_origin

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from ivqa.config.keys import keys_of
from ivqa.config.nodes import Node
from ivqa.config.words import description, shown
from ivqa.store.identity import to_plain
from ivqa.store.signatures import arguments_of

# No conversions: 1.5 and "1" are not integers, and NaN is not a number.
_STRICT = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
# An interpolation: ${model.epochs} and ${oc.select:model.val_batches,1.0}
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?(\.*)([\w.]+)(?:,[^{}]*)?\}")


def value_faults(cfg: DictConfig, found: Iterable[Node]) -> list[str]:
    """Finds the invalid values of a configuration whose `nodes` are `found`.

    Returns:
        One sentence for each invalid value; it names the key that the user set.
    """
    faults: dict[str, str] = {}
    for node, prefix in found:
        given = [key for key in map(str, node) if not OmegaConf.is_missing(node, key)]
        names = {key: _source(cfg, node, prefix, key) for key in given}
        expected = expected_values(node, prefix)
        for key in given:
            if key not in expected:
                continue
            if fault := value_fault(names[key], to_plain(node[key]), expected[key]):
                faults.setdefault(names[key], fault)  # several keys may refer to this one
    return list(faults.values())


def value_fault(name: str, value: Any, annotation: Any) -> str | None:
    """Validates one value against an annotation.

    Args:
        name: The dotted key of the value, for the message.
        value: A plain value. Components (nodes with a `_target_`) are always valid here: their
            own arguments are validated one by one.
        annotation: A type, with ranges and validators in `Annotated`.

    >>> from ivqa.ranges import Count, Positive
    >>> value_fault("model.batch_size", 0, Count)
    'model.batch_size=0: must be an integer from 1 to 1,000,000,000'
    >>> value_fault("lr", "fast", Positive | None)
    'lr=fast: must be a number from 1e-12 to 1,000,000,000 or null'
    >>> value_fault("sizes", [3, 1.5], Sequence[int])
    'sizes[1]=1.5: must be an integer'
    """
    adapter = _adapter(annotation)
    if adapter is None or _holds_component(value):
        return None
    try:
        # As JSON, since a strict validation of Python values refuses lists for tuples.
        adapter.validate_json(json.dumps(value, default=str))
    except PydanticUserError:
        return None  # pydantic cannot validate this type
    except ValidationError as error:
        found = error.errors(include_url=False)
        # Of the members of a union, one with a reason of its own fits the value best.
        first = next((one for one in found if "error" in one.get("ctx", {})), found[0])
        reason = first.get("ctx", {}).get("error")
        # Follow the location of the error into lists and mappings, to name the wrong item.
        inner = annotation
        for step in first["loc"]:
            if isinstance(step, str) and not isinstance(value, dict):
                continue  # the location names a member of a union
            item = _item(_inner(inner), step)
            if isinstance(step, int) and step >= len(value):
                break  # the location names a missing value
            if item is None and (reason is None or not isinstance(step, int)):
                break
            name += f"[{step}]" if isinstance(step, int) else f".{step}"
            value, inner = value[step], item
        return f"{name}={shown(value)}: {reason or f'must be {description(inner)}'}"
    return None


def expected_values(node: DictConfig, prefix: str) -> Mapping[str, Any]:
    """The annotations that are known for the keys of a node."""
    if "_target_" not in node:
        return keys_of(node, prefix)
    if OmegaConf.is_missing(node, "_target_"):
        return {}
    try:
        target = get_object(node._target_)
    except Exception:  # check_config reports targets that cannot be imported
        return {}
    found = {name: hint for name, (_, hint) in arguments_of(target).items()}
    return {"_partial_": bool, "_recursive_": bool} | found


@cache
def _adapter(annotation: Any) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(_without_protocols(annotation), config=_STRICT)
    except (PydanticSchemaGenerationError, PydanticUserError, NameError):
        return None  # the type has no constraints that pydantic can validate


class _Component:
    """Replaces protocols, which pydantic cannot validate; no plain value is an instance."""


def _without_protocols(annotation: Any) -> Any:
    """The annotation with `_Component` in place of each protocol."""
    if getattr(annotation, "_is_protocol", False):
        return _Component
    kind, inner = get_origin(annotation), get_args(annotation)
    if kind in (Union, types.UnionType):
        return reduce(or_, map(_without_protocols, inner))
    if kind is Annotated:
        return Annotated[(_without_protocols(inner[0]), *inner[1:])]
    if isinstance(kind, type) and issubclass(kind, Mapping | Sequence) and kind is not tuple:
        return kind[tuple(map(_without_protocols, inner))]  # type: ignore[index]
    return annotation


def _inner(annotation: Any) -> Any:
    """The annotation without `Annotated` and null, so that its items can be looked up."""
    while get_origin(annotation) is Annotated and get_origin(get_args(annotation)[0]) is not None:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return _inner(kinds[0]) if len(kinds) == 1 else annotation
    return annotation


def _item(annotation: Any, step: int | str) -> Any:
    """The annotation of an item of a list, tuple or mapping; None if it is unknown."""
    kind, inner = get_origin(annotation), get_args(annotation)
    if not isinstance(kind, type) or kind is types.UnionType:
        return None
    if kind is tuple and isinstance(step, int):
        return inner[0] if Ellipsis in inner else inner[step]
    if issubclass(kind, Mapping):
        return inner[1]
    return inner[0] if issubclass(kind, Sequence) and isinstance(step, int) else None


def _source(cfg: DictConfig, node: DictConfig, prefix: str, key: str) -> str:
    """The key that holds the value of `key`: the key itself, or the last of its interpolations."""
    name = prefix + key
    while OmegaConf.is_interpolation(node, key):
        raw: Any = node._get_node(key)
        found = _REFERENCE.fullmatch(raw._value())
        if found is None:
            return name
        dots, target = found.groups()
        kept = name.split(".")[: -len(dots)] if dots else []  # each dot of ${..key} goes up a level
        source = ".".join([*kept, target])
        parent, _, last = source.rpartition(".")
        holder = OmegaConf.select(cfg, parent) if parent else cfg
        if not isinstance(holder, DictConfig) or last not in holder:
            return name
        name, node, key = source, holder, last
    return name


def _holds_component(value: Any) -> bool:
    if isinstance(value, dict):
        return "_target_" in value or any(map(_holds_component, value.values()))
    return isinstance(value, list) and any(map(_holds_component, value))
