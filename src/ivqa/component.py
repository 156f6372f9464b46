"""What a checkpoint says about the model inside it, and whether that fits."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ivqa.errors import UserError

_INPUTS = {"question_words", "answer_words", "answers", "feature_sizes"}


def network_settings(network: Callable[..., Any]) -> dict[str, Any]:
    """Name and bound arguments of a network factory, in plain containers.

    Raises UserError where an argument is nothing that a checkpoint can hold.

    >>> network_settings(partial(dict, hidden_size=8))
    {'name': 'dict', 'arguments': {'hidden_size': 8}}
    """
    arguments: dict[str, Any] = {}
    while isinstance(network, partial):
        arguments = {**network.keywords, **arguments}
        network = network.func
    name = getattr(network, "__qualname__", type(network).__qualname__)
    return {"name": name, "arguments": {key: _plain(value) for key, value in arguments.items()}}


def check_same_inputs(stored: Mapping[str, Any] | None, own: Mapping[str, Any]) -> None:
    """Raises UserError where a stored component has other words, answers or features."""
    if stored is None:
        raise UserError("this checkpoint names no component: it was not written by ivqa")
    for key in _INPUTS & own.keys():
        if stored.get(key) != own[key]:
            raise UserError(
                f"the checkpoint was trained with other {key}: "
                f"{_difference(stored.get(key, ()), own[key])}; use its data and features"
            )


def check_same_network(stored: Mapping[str, Any], given: Mapping[str, Any], source: str) -> None:
    """Raises UserError where the network given is another one, or set otherwise, than stored."""
    if stored["name"] != given["name"]:
        raise UserError(
            f"{source} holds a {stored['name']}, not a {given['name']}; pass that class"
        )
    for key, value in given["arguments"].items():
        if stored["arguments"].get(key, value) != value:
            raise UserError(
                f"{source} was trained with {key}={stored['arguments'][key]}, not {value}; "
                "leave the network's settings to the checkpoint"
            )


def _plain(value: Any) -> Any:
    """`value` as str, number, bool, None, list or dict; config containers become plain ones."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    if isinstance(value, partial | type):
        return network_settings(value)
    raise ValueError(
        f"a network setting is a {type(value).__name__}, which a checkpoint cannot hold; "
        "pass numbers, strings, lists, dicts and factories only"
    )


def _difference(stored: Any, own: Any) -> str:
    if isinstance(stored, dict):
        return f"{stored} there, {own} here"
    known = set(stored)
    strange = [word for word in own if word not in known][:3]
    hint = f", such as {strange} only here" if strange else ""
    return f"{len(stored)} words there, {len(own)} here{hint}"
