"""Which components the configuration of another person's run may name.

resume= replays the overrides of a run, and `ivqa.load` composes its config.yaml. `instantiate`
calls whatever `_target_` names there, so a run that was edited, or came from elsewhere, could call
`os.system`. A place in these configurations may therefore hold only what a file of conf/ names for
this place, or a library's class of the kind in `LIBRARY`. The packages that the user trusts are
added by `trust=[PACKAGE]`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ivqa.errors import UserError
from ivqa.plug_ins import is_installed
from ivqa.store.files import read_yaml

# By place: the public module of a library, and the class whose subclasses there may stand.
LIBRARY = {
    "optimizer": ("torch.optim", "torch.optim.Optimizer"),
    "scheduler": ("torch.optim.lr_scheduler", "torch.optim.lr_scheduler.LRScheduler"),
    "callbacks": ("pytorch_lightning.callbacks", "pytorch_lightning.Callback"),
    "logger": ("pytorch_lightning.loggers", "pytorch_lightning.loggers.TensorBoardLogger"),
}

# Mappings of components with free names; in any other mapping the key says what a component is.
_ENTRIES = {"callbacks", "logger", "rewards"}
_REFERENCE = re.compile(r"\$\{[\w.]*?(\w+)\}")
# Nodes that only look up another name, which is in the key `path`.
_LOOKUPS = {"hydra.utils.get_class", "hydra.utils.get_method", "hydra.utils.get_object"}


def check_targets(
    cfg: DictConfig, source: str, folders: Sequence[Path], trust: Iterable[str]
) -> None:
    """Checks every `_target_` of a configuration before anything is called.

    Raises:
        UserError: A target is not allowed where it stands, see `is_allowed`; the message calls the
            run `source`.
    """
    packages = tuple(map(str, trust))
    try:
        content = OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"{source}: {str(error).splitlines()[0]}") from error
    for name, keys in targets(content):
        if is_allowed(name, keys, folders, packages):
            continue
        path, package = ".".join(keys), name.partition(".")[0]
        if not is_installed(name):
            raise UserError(
                f"{source}: {path} names '{name}', and the package {package} is not installed "
                "here; install it if you trust it"
            )
        raise UserError(
            f"{source}: {path} names '{name}', which is no component of conf/ for this place, and "
            f"was not run; if you wrote it, add trust=[{package}]"
        )


def is_allowed(
    name: str, keys: Sequence[str], folders: Sequence[Path], trust: Sequence[str] = ()
) -> bool:
    """Whether a configuration from elsewhere may name a component at a place.

    Args:
        name: The dotted name. Only modules of `LIBRARY` and of trusted packages are imported.
        keys: The keys that lead to it, with `_target_` (or `path` of a look-up).
        folders: The user's folders of configuration files.
        trust: Packages that the user trusts.

    Returns:
        True for what a file of `folders` names at such a place, for subclasses of the class that
        `LIBRARY` gives for the place, and for what a package of `trust` defines.
    """
    if name.partition(".")[0] in trust and _is_defined_in(name, trust):
        return True
    kind = _kind(keys[:-1], folders)
    return name in components(tuple(folders)).get(kind, ()) or _is_of_library(name, kind)


def _is_defined_in(name: str, packages: Sequence[str]) -> bool:
    """Whether a package defines what it names: my_package.os.system it only imports."""
    try:
        found: Any = get_object(name)
    except Exception:
        return True  # check_config reports it
    owner = getattr(found, "__self__", None)  # of a class method, also of one that is inherited
    defined = getattr(owner if isinstance(owner, type) else found, "__module__", None)
    return str(defined).partition(".")[0] in packages


def _is_of_library(name: str, kind: str) -> bool:
    module, base = LIBRARY.get(kind, ("", ""))
    parent, _, last = name.rpartition(".")
    if not module or parent != module:
        return False
    found = vars(import_module(module)).get(last)
    return isinstance(found, type) and issubclass(found, get_object(base))


def _kind(keys: Sequence[str], folders: Sequence[Path]) -> str:
    """What stands at a place: its last key, or the mapping or group that it is an entry of."""
    *outer, last = ["", *keys]
    if outer and outer[-1] in _ENTRIES:
        return outer[-1]
    if last not in components(tuple(folders)) and outer:  # noise@noise.image
        return outer[-1] if any((folder / outer[-1]).is_dir() for folder in folders) else last
    return last


def targets(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields every name that `instantiate` would look up in a configuration of plain values.

    Each comes with the keys that lead to it; items of lists have no key.
    """
    if isinstance(value, list):
        for child in value:
            yield from targets(child, keys)
    elif isinstance(value, dict):
        if "_target_" in value:
            yield str(value["_target_"]), (*keys, "_target_")
            if value["_target_"] in _LOOKUPS:
                yield str(value.get("path")), (*keys, "path")
        for key, child in value.items():
            yield from targets(child, (*keys, str(key)))


@cache
def contents(folders: tuple[Path, ...]) -> list[tuple[Path, Any]]:
    """The configuration files of folders: the path below the folder, and what is in the file."""
    return [
        (file.relative_to(folder), read_yaml(file, object))
        for folder in folders
        for file in folder.rglob("*.yaml")
    ]


@cache
def components(folders: tuple[Path, ...]) -> Mapping[str, frozenset[str]]:
    """By kind of place, all values of `_target_` in configuration files, and paths of look-ups."""
    files = contents(folders)
    others: dict[Path, set[str]] = {}  # keys where a defaults list puts a file or a group
    for file, content in files:
        for entry in content.get("defaults", ()) if isinstance(content, dict) else ():
            written = next(iter(entry)) if isinstance(entry, dict) else str(entry)
            name, _, place = str(written).removeprefix("override ").partition("@")
            if place and not place.endswith("_"):
                named = Path(name[1:]) if name.startswith("/") else file.parent / name
                others.setdefault(named, set()).add(place.rpartition(".")[2])
    found: dict[str, set[str]] = {}
    for file, content in files:
        group, stem = file.parent, file.with_suffix("")
        kinds = {file.parts[0]} | others.get(group, set()) | others.get(stem, set())
        for name, keys in targets(content):
            if "hydra" in (file.parts[0], keys[0]):
                continue  # Hydra's own callbacks, sweepers and launchers
            for kind in kinds:
                *outer, last = (kind, *keys[:-1])
                entry = bool(outer) and outer[-1] in _ENTRIES
                found.setdefault(outer[-1] if entry else last, set()).add(name)
    for _, content in files:
        for place, kind in _references(content):  # pool: ${bqd}
            found.setdefault(place, set()).update(found.get(kind, ()))
    return {kind: frozenset(names) for kind, names in found.items() if names}


def _references(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The keys whose value is a reference to another key, with the last part of the latter."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _references(child, str(name))
    elif isinstance(value, str) and (found := _REFERENCE.fullmatch(value)):
        yield key, found[1]
