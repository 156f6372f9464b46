"""Identities: the settings and the code that determine a result, as plain values.

The digest of an identity is the key of a stored result.
"""

import inspect
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import get_object
from omegaconf import OmegaConf
from torch import Tensor, nn

from ivqa.store.digests import bytes_digest, content_digest
from ivqa.store.versions import code_version

# Settings that do not change a result: where it is stored or computed, and how it is measured.
NEUTRAL_SETTINGS = {
    *("benchmark", "cache", "device", "num_workers"),
    # Of a served model: its address may change, and the number of its requests is a budget.
    *("api_key_env", "base_url", "endpoint", "max_requests", "workers"),
}

# Settings that change nothing while they are null; results of before they existed stay valid.
_OFF_IF_NULL = {"augment", "revision"}

# Settings that name a file or a folder: the identity contains the digest of its content.
FILE_SETTINGS = {"candidates", "path", "weights"}


def identity_of(value: object) -> dict[str, Any]:
    """Describes an object by its public attributes, recursively, and by the code of its classes.

    Attributes that start with an underscore and those of `NEUTRAL_SETTINGS` are left out.

    Args:
        value: Any object, such as a ranker or an encoder.

    Returns:
        {"settings": nested plain values, "code": the `code_version` of all classes and functions}.

    Example:
        >>> class Cut:
        ...     def __init__(self, sizes):
        ...         self.sizes, self.cache = sizes, "folder"
        >>> identity_of(Cut([3, 4]))["settings"]
        {'of': 'Cut', 'sizes': [3, 4]}
    """
    roots: dict[Any, None] = {}
    settings = _describe(value, roots)
    return {"settings": settings, "code": code_version(roots)}


def to_plain(cfg: Any) -> Any:
    """Resolves all interpolations and converts the configuration to plain Python values.

    Args:
        cfg: A node of a configuration; any other value is returned unchanged.

    Returns:
        Dicts, lists, texts and numbers.
    """
    return OmegaConf.to_container(cfg, resolve=True) if OmegaConf.is_config(cfg) else cfg


def code_of(settings: Any, *more: type) -> dict[str, int | str]:
    """The versions of the code that a configuration builds.

    Args:
        settings: Plain dicts, lists and values; `_target_` names a class or function at any depth.
        *more: Further classes.

    Returns:
        See `code_version`.
    """
    return code_version([*_targets(settings), *more])


def _targets(settings: Any) -> list[Any]:
    """The classes and functions that a configuration names in `_target_`, at any depth."""
    if isinstance(settings, Mapping):
        own = [get_object(settings["_target_"])] if "_target_" in settings else []
        inner = (value for name, value in settings.items() if name not in NEUTRAL_SETTINGS)
        return own + [found for value in inner for found in _targets(value)]
    if isinstance(settings, list):
        return [found for value in settings for found in _targets(value)]
    return []


def result_settings(settings: Any) -> Any:
    """Reduces a configuration to the settings that determine a result.

    Args:
        settings: Plain dicts, lists and values.

    Returns:
        The same structure without `NEUTRAL_SETTINGS` and without an augmentation or a revision that
        is null; names of existing files are replaced by the digests of their contents, and paths of
        this package's classes by their names, so that a class may move to another module.

    Example:
        >>> result_settings({"lr": 0.1, "device": "cpu", "parts": [{"cache": "x", "size": 8}]})
        {'lr': 0.1, 'parts': [{'size': 8}]}
    """
    if isinstance(settings, Mapping):
        return {
            str(name): _by_content(name, result_settings(value))
            for name, value in settings.items()
            if name not in NEUTRAL_SETTINGS and (name not in _OFF_IF_NULL or value)
        }
    if isinstance(settings, list | tuple):
        return [result_settings(value) for value in settings]
    return settings


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The differences between two nested settings.

    Args:
        there: Settings of a file.
        here: Settings of this run.

    Returns:
        One text for each value that differs.

    Example:
        >>> differences({"ranker": {"lam": 0.1}, "k": 21}, {"ranker": {"lam": 0.2}, "k": 21})
        ['ranker.lam is 0.1 there, 0.2 here']
    """
    one, other = _flat(there), _flat(here)
    return [
        f"{name} is {one.get(name)} there, {other.get(name)} here"
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name)
    ]


def _by_content(name: Any, value: Any) -> Any:
    if name == "_target_" and str(value).startswith("ivqa."):
        return get_object(value).__qualname__
    if name not in FILE_SETTINGS or not isinstance(value, str):
        return value
    return content_digest(value) or value


def _describe(value: Any, roots: dict[Any, None]) -> Any:
    """`value` as JSON values; its classes and functions are added to `roots`."""
    if value is None or isinstance(value, str | bool | int | float):
        # JSON has neither NaN nor infinities.
        return value if not isinstance(value, float) or np.isfinite(value) else repr(value)
    if isinstance(value, bytes):
        return bytes_digest(value)
    if isinstance(value, Path):
        return _by_content("path", str(value))
    if isinstance(value, Mapping):
        return {str(key): _describe(item, roots) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_describe(item, roots) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [_describe(item, roots) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        return [str(array.dtype), list(array.shape), bytes_digest(array.tobytes())]
    if isinstance(value, partial):
        return [_describe(item, roots) for item in (value.func, value.args, value.keywords)]
    if isinstance(value, type) or inspect.isroutine(value):
        roots[value] = None
        return value.__qualname__
    if isinstance(value, Tensor):
        return _describe(value.detach().cpu().numpy(), roots)
    roots[type(value)] = None
    if isinstance(value, nn.Module):
        return {"of": type(value).__qualname__, "weights": _describe(value.state_dict(), roots)}
    names: tuple[str, ...] = (*getattr(value, "__dict__", ()), *getattr(value, "__slots__", ()))
    settings = {
        name: _by_content(name, _describe(getattr(value, name), roots))
        for name in names
        # An object with an attribute `content` is identified by it; the file name is left out.
        if name[0] != "_"
        and name not in NEUTRAL_SETTINGS
        and not (name in FILE_SETTINGS and "content" in names)
    }
    return {"of": type(value).__qualname__, **settings}


def _flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one dictionary with dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in node.items():
        inner = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return flat
