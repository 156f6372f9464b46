"""Identities: the settings and the code that determine a result, as plain values.

The digest of an identity is the key of a stored result. The annotation of an argument says whether
it counts: not at all (`NO_EFFECT`), or by the content of the file that it names (`CONTENT`).
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import get_object
from omegaconf import OmegaConf
from torch import Tensor, nn

from ivqa.ranges import CONTENT, NO_EFFECT, marks_of
from ivqa.store.digests import bytes_digest, content_digest
from ivqa.store.signatures import defaults_of, marked
from ivqa.store.versions import code_version

Keys = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""The annotations of the keys of a mapping without `_target_`."""


def _unknown(_: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


def identity_of(value: object) -> dict[str, Any]:
    """Describes an object by its public attributes, recursively, and by the code of its classes.

    Attributes that start with an underscore are left out, and so are those with the name of an
    argument of the constructor that has no effect.

    Returns:
        {"settings": nested plain values, "code": the `code_version` of all classes and functions}.

    Example:
        >>> from typing import Annotated
        >>> class Cut:
        ...     def __init__(self, sizes: list, cache: Annotated[str, NO_EFFECT] = "folder"):
        ...         self.sizes, self.cache = sizes, cache
        >>> identity_of(Cut([3, 4]))["settings"]
        {'of': 'Cut', 'sizes': [3, 4]}
    """
    roots: dict[Any, None] = {}
    settings = _describe(value, roots)
    return {"settings": settings, "code": code_version(roots)}


def to_plain(cfg: Any) -> Any:
    """Resolves a node of a configuration to plain dicts, lists, texts and numbers.

    Any other value is returned unchanged.
    """
    return OmegaConf.to_container(cfg, resolve=True) if OmegaConf.is_config(cfg) else cfg


def code_of(settings: Any, *more: type, keys: Keys = _unknown) -> dict[str, int | str]:
    """The versions of the code that a configuration builds, see `code_version`.

    Args:
        settings: Plain dicts, lists and values; `_target_` names a class or function at any depth.
        *more: Further classes.
        keys: See `result_settings`.
    """
    return code_version([*_targets(settings, keys), *more])


def result_settings(settings: Any, keys: Keys = _unknown) -> Any:
    """Reduces a configuration to the settings that determine a result.

    Args:
        settings: Plain dicts, lists and values.
        keys: The annotations of the keys of mappings without `_target_`, such as a model.

    Returns:
        The same structure without settings of no effect. Paths of files are replaced by digests of
        their contents. Of this package's classes, which have versions, arguments that are equal to
        the constructor's default are left out, so that a new argument changes no identity, and
        paths are replaced by names, so that a class may move to another module.

    Example:
        >>> result_settings({"_target_": "ivqa.vqa.MLB", "num_glimpses": 2, "joint_size": 8})
        {'_target_': 'MLB', 'joint_size': 8}
    """
    if isinstance(settings, list | tuple):
        return [result_settings(value, keys) for value in settings]
    if not isinstance(settings, Mapping):
        return settings
    kept = {
        str(name): _content(value) if by_content else result_settings(value, keys)
        for name, value, by_content in _counting(settings, keys)
    }
    if str(settings.get("_target_")).startswith("ivqa."):
        kept["_target_"] = get_object(settings["_target_"]).__qualname__
    return kept


def _counting(settings: Mapping[str, Any], keys: Keys) -> Iterator[tuple[str, Any, bool]]:
    """The settings of a mapping that count, and whether they count by the content of a file."""
    defaults: Mapping[str, Any] = {}
    if "_target_" in settings:
        target = get_object(settings["_target_"])
        neutral, files = marked(target, NO_EFFECT), marked(target, CONTENT)
        if str(settings["_target_"]).startswith("ivqa."):
            defaults = defaults_of(target)
    else:
        marks = {name: marks_of(hint) for name, hint in keys(settings).items()}
        neutral = frozenset(name for name, found in marks.items() if NO_EFFECT in found)
        files = frozenset(name for name, found in marks.items() if CONTENT in found)
    for name, value in settings.items():
        if name not in neutral and not (name in defaults and _equal(defaults[name], value)):
            yield name, value, name in files


def _equal(default: Any, value: Any) -> bool:
    """Whether a value of a configuration is that of a default, which may be a tuple."""
    default = list(default) if isinstance(default, tuple) else default
    return isinstance(default, bool) == isinstance(value, bool) and bool(default == value)


def _targets(settings: Any, keys: Keys) -> list[Any]:
    """The classes and functions that a configuration names in `_target_`, at any depth."""
    if isinstance(settings, Mapping):
        own = [get_object(settings["_target_"])] if "_target_" in settings else []
        inner = (value for _, value, _ in _counting(settings, keys))
        return own + [found for value in inner for found in _targets(value, keys)]
    if isinstance(settings, list):
        return [found for value in settings for found in _targets(value, keys)]
    return []


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """The values that differ between settings of a file and of this run, as one text each.

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


def _content(value: Any) -> Any:
    """The digest of the file or folder of this name; another value as it is."""
    return (content_digest(value) if isinstance(value, str) else None) or value


def _describe(value: Any, roots: dict[Any, None]) -> Any:
    """`value` as JSON values; its classes and functions are added to `roots`."""
    if value is None or isinstance(value, str | bool | int | float):
        # JSON has neither NaN nor infinities.
        return value if not isinstance(value, float) or np.isfinite(value) else repr(value)
    if isinstance(value, bytes):
        return bytes_digest(value)
    if isinstance(value, Path):
        return _content(str(value))
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
        given = _described(value.func, value.keywords, roots)
        return [_describe(value.func, roots), _describe(value.args, roots), given]
    if isinstance(value, type) or inspect.isroutine(value):
        roots[value] = None
        return value.__qualname__
    if isinstance(value, Tensor):
        return _describe(value.detach().cpu().numpy(), roots)
    roots[type(value)] = None
    if isinstance(value, nn.Module):
        return {"of": type(value).__qualname__, "weights": _describe(value.state_dict(), roots)}
    names = (*getattr(value, "__dict__", ()), *getattr(value, "__slots__", ()))
    given = {name: getattr(value, name) for name in names if name[0] != "_"}
    return {"of": type(value).__qualname__, **_described(type(value), given, roots)}


def _described(target: Any, given: Mapping[str, Any], roots: dict[Any, None]) -> dict[str, Any]:
    """The arguments or attributes of a class or function that count, as JSON values."""
    neutral, files = marked(target, NO_EFFECT), marked(target, CONTENT)
    found = {}
    for name, value in given.items():
        # An object with an attribute `content` is identified by it; the file name is left out.
        if name not in neutral and not (name in files and "content" in given):
            described = _describe(value, roots)
            found[name] = _content(described) if name in files else described
    return found


def _flat(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one dictionary with dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in node.items():
        inner = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return flat
