"""Missing, deleted and unknown keys of a configuration.

A configuration is a tree of mappings: commands, models, and components, whose `_target_` names the
class that takes the keys as arguments.
"""

import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hydra.utils import get_object
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException

from ivqa.config.words import shown
from ivqa.errors import reason_of
from ivqa.store.signatures import arguments_of

Node = tuple[DictConfig, str]
"""A mapping of a configuration, and the prefix of its keys' dotted names: "" or "model."."""

# Keys that Hydra's `instantiate` reads beside every _target_.
_INSTANTIATE_WORDS = {"_target_", "_partial_", "_convert_", "_recursive_", "_args_"}


def nodes(cfg: DictConfig, prefix: str = "") -> Iterator[Node]:
    """Iterates over all mappings of a configuration, outer before inner.

    Interpolations are not followed, so a node that several keys refer to comes once. Each mapping
    comes with the prefix of its keys, such as "model.module." or "list[0].".
    """
    yield cfg, prefix
    for key in cfg:
        if OmegaConf.is_missing(cfg, key) or OmegaConf.is_interpolation(cfg, str(key)):
            continue
        child = cfg[key]
        if isinstance(child, DictConfig):
            yield from nodes(child, f"{prefix}{key!s}.")
        elif isinstance(child, ListConfig):
            for index, item in enumerate(child):
                if isinstance(item, DictConfig):
                    yield from nodes(item, f"{prefix}{key!s}[{index}].")


def missing_keys(found: Iterable[Node]) -> list[str]:
    """Dotted names of the keys of nodes whose value is `???`, such as "data.root".

    Keys that refer to them are left out.
    """
    return [
        f"{prefix}{key!s}"
        for node, prefix in found
        for key in node
        if OmegaConf.is_missing(node, str(key))
    ]


def key_faults(cfg: DictConfig, found: Sequence[Node], reference: DictConfig | None) -> list[str]:
    """Finds the keys that are missing, deleted, do not resolve, or that nothing reads.

    Args:
        found: The `nodes` of cfg.
        reference: The configuration whose keys are known, beside the arguments of a `_target_`;
            None where it is not known.

    Returns:
        One sentence for each such key.
    """
    faults = [f"{key} must be set{_to_what(cfg, key)}" for key in sorted(missing_keys(found))]
    if reference is not None:
        faults += [
            f"{group} must be set; choose a file of conf/{group}"
            for group in ("data", "model", "trainer")
            if group in reference and not isinstance(cfg.get(group), DictConfig)
        ]
        faults += _deleted(cfg, nodes(reference))
    try:
        OmegaConf.missing_keys(cfg)  # resolves all interpolations of nodes
    except InterpolationResolutionError as error:  # nothing else can be checked
        reason = str(error).splitlines()[0]
        return faults or [
            f"{error.full_key} does not resolve ({reason}); choose a file of that group, such as "
            "vqa=mlb"
        ]
    for node, prefix in found:
        faults += _unresolvable(node, prefix)
        if "_target_" in node and not OmegaConf.is_missing(node, "_target_"):
            faults += _unknown_arguments(node, prefix)
        elif reference is not None:
            known = _node(reference, prefix)
            if isinstance(known, DictConfig) and known:
                names = [str(name) for name in known]  # `in` does not find keys whose value is ???
                faults += [
                    _unknown(f"{prefix}{key!s}", names)
                    for key in node
                    if str(key) not in names and not _is_added(node, str(key), known)
                ]
    return faults


def _to_what(cfg: DictConfig, key: str) -> str:
    """What the missing `path` of a model is; "" for another key."""
    parent, _, last = key.rpartition(".")
    model = OmegaConf.select(cfg, parent) if parent else cfg
    if last != "path" or "module" not in model:
        return ""
    if "base_url" in model:
        return " to the name of the served model, as BASE_URL/models lists it"
    return " to a folder that save_pretrained wrote, or to a hub id"


def _deleted(cfg: DictConfig, chosen: Iterable[Node]) -> list[str]:
    """Keys of the `chosen` files that an override with ~ deletes although they are needed.

    Arguments with a default may be deleted, and so may components of a mapping of them, such as
    callbacks.
    """
    faults = []
    for known, prefix in chosen:
        if prefix.startswith("hydra."):
            continue
        node = _node(cfg, prefix)
        if not isinstance(node, DictConfig) or node is known or _holds_components(known):
            continue
        target = known.get("_target_") if not OmegaConf.is_missing(known, "_target_") else None
        if target is not None and node.get("_target_") == target:
            arguments = arguments_of(get_object(target))
            needed = [name for name, (one, _) in arguments.items() if one.default is one.empty]
            needed.append("_partial_")
        elif "_target_" in node:
            continue  # another class takes other arguments
        else:
            needed = ["_target_"] if target is not None else [str(key) for key in known]
        others = set() if prefix else {"hydra", "data", "model", "trainer"}  # reported as groups
        faults += [
            f"{prefix}{key!s} is deleted but needed; leave ~{prefix}{key!s} out"
            for key in needed
            if key in known.keys() - node.keys() - others
        ]
    return faults


def _node(cfg: DictConfig, prefix: str) -> Any:
    """The node whose keys have this prefix; None where there is none."""
    return OmegaConf.select(cfg, prefix[:-1]) if prefix else cfg


def _unresolvable(node: DictConfig, prefix: str) -> list[str]:
    faults = []
    for key in node:
        if not OmegaConf.is_interpolation(node, str(key)):
            continue
        try:
            node[key]
        except OmegaConfBaseException as error:
            faults.append(f"{prefix}{key!s} does not resolve ({str(error).splitlines()[0]})")
    return faults


def _unknown_arguments(node: DictConfig, prefix: str) -> list[str]:
    if not isinstance(node._target_, str):
        return [f"{prefix}_target_={shown(node._target_)}: must be the name of a class"]
    try:
        target = get_object(node._target_)
    except Exception as error:
        return [f"{prefix}_target_={node._target_} cannot be imported: {_why_not(error)}"]
    parameters = arguments_of(target)
    if "**" in parameters:
        return []
    return [
        _unknown(f"{prefix}{key!s}", list(parameters))
        for key in node
        if key not in parameters and key not in _INSTANTIATE_WORDS
    ]


def _why_not(error: Exception) -> str:
    """Why Hydra could not import a class, in one sentence: its own has three lines."""
    cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
    package = cause.name if isinstance(cause, ModuleNotFoundError) else None
    if package and "." not in package and package not in sys.modules:
        return f"there is no module {package}; put its folder on PYTHONPATH, or install it"
    return reason_of(cause)


def _is_added(node: DictConfig, key: str, known: DictConfig) -> bool:
    """Whether a key adds a component to a mapping of components, as to callbacks or logger."""
    child = node[key] if not OmegaConf.is_missing(node, key) else None
    return isinstance(child, DictConfig) and "_target_" in child and _holds_components(known)


def _holds_components(node: DictConfig) -> bool:
    """Whether all values of a mapping are components, as those of callbacks or logger are."""
    values = [value for _, value in node.items_ex(resolve=False) if value is not None]
    return all(isinstance(value, DictConfig) and "_target_" in value for value in values)


def _unknown(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key.rsplit(".", 1)[-1], known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
    return f"nothing reads {key} ({hint})"
