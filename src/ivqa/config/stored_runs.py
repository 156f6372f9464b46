"""What a run directory from elsewhere may set: no address, no key, no path outside of itself.

`ivqa.config.trust` checks which components a stored configuration names; this module checks the
values. A value counts as the user's own if a file of conf/ has it at a key of the same name, or if
the user's own command line sets this key.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from ivqa.config.path_keys import ARGUMENTS, command_paths
from ivqa.config.short_forms import written_out
from ivqa.config.trust import check_targets, contents
from ivqa.errors import UserError

# Keys of a run that no stored run sets for the user.
_USERS = {"trust", "resume", "output_dir", "artifacts"}
# References to other keys, without resolvers that read the environment, files or Hydra.
_REFERENCE = re.compile(r"\$\{(oc\.select:)?\.*\w[\w.]*(,[\w.]*)?\}")
# Keys whose text is an address, an account or the name of a key.
_ADDRESS = re.compile(
    r"(\w+_)?(url|uri|host|hostname|proxy|proxies|address|server|endpoint|registry|entity|account|"
    r"workspace|bucket|user|username|password|secret|credentials|token|key|env)"
)
# Keys whose text is a place that is written; those that `_reads` knows are only read.
_WRITTEN = re.compile(
    r"(\w+_)?(dir|dirs|dirpath|directory|folder|cache|filename|artifacts|location)|"
    r"(log|out|output|save|write|export)_\w+"
)
# A text that leads out of the folder that it is joined to.
_OUTSIDE = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|(.*[/\\])?\.\.([/\\].*)?$", re.DOTALL)


@dataclass(frozen=True)
class OwnSettings:
    """The dotted keys that the user gave on the own command line, and the packages of `trust`."""

    keys: frozenset[str]
    trust: tuple[str, ...]


def own_settings(arguments: Iterable[str]) -> OwnSettings:
    """Reads the user's own arguments, without those of a stored run."""
    keys: set[str] = set()
    trust: Any = []
    for argument in arguments:
        override = _parsed(written_out(argument))
        if override is None:
            continue  # an option; Hydra reports what it cannot read
        value = None if override.is_sweep_override() else override.value()
        keys |= {path for path, _ in _leaves(value, override.key_or_group)}
        if override.key_or_group == "trust":
            trust = value or []
    return OwnSettings(frozenset(keys), tuple(map(_text, trust)))


def stored_overrides(overrides: Iterable[str], file: Path, folders: Sequence[Path]) -> list[str]:
    """The stored overrides of a run, without those that only the user may give.

    Raises:
        UserError: One is an option, a key of Hydra or a sweep, which ivqa never stores there; it
            reads the environment or a file; or it chooses a file outside of `folders`.
    """
    kept = []
    for item in overrides:
        override = _parsed(item)
        if override is None or not _is_plain(override, folders):
            raise UserError(
                f"{file} holds '{item}', which no run of ivqa stores; remove this line if you "
                "trust the rest of the run"
            )
        texts = [text for _, text in _leaves(override.value(), "") if isinstance(text, str)]
        if any(map(_resolves_more, texts)):
            raise UserError(
                f"{file} holds '{item}', which reads more than other keys and was not resolved; "
                "remove this line and, if you trust it, give it on your own command line"
            )
        if override.key_or_group.partition(".")[0] not in _USERS:
            kept.append(item)
    return kept


def check_stored(
    cfg: DictConfig, source: str, run_dir: Path, folders: Sequence[Path], own: OwnSettings
) -> None:
    """Checks the composed configuration of a run from elsewhere before anything is called.

    `source` names the run in messages, and `own` is what the user gave.

    Raises:
        UserError: It names a component that is not allowed (`check_targets`), an address or a key,
            or a place to write outside of the run directory and of the artifact store.
    """
    users = _texts_in(tuple(folders))
    stored = [
        (path, value)
        for path, value in _leaves(OmegaConf.to_container(cfg, resolve=False), "")
        if path not in own.keys and (_key(path), str(value)) not in users
    ]
    for path, value in stored:
        if isinstance(value, str) and _resolves_more(value):
            raise UserError(
                f"{source}: {path}={value} of the stored run reads more than other keys and was "
                "not resolved; give this key on your own command line"
            )
    check_targets(cfg, source, folders, own.trust)
    references = {path for path, value in stored if "${" in str(value)}
    inside = [run_dir.resolve(), Path(str(cfg.artifacts)).expanduser().resolve()]
    arguments = _arguments_in(tuple(folders))
    for path, value in _leaves(OmegaConf.to_container(cfg, resolve=True), ""):
        if (path, value) in stored or path in references:
            is_target = _key(path) == "_target_" and path in references
            fault = "a component by reference" if is_target else (
                _fault(path, value, inside, arguments)
            )  # fmt: skip
            if fault is not None:
                raise UserError(
                    f"{source}: {path}={value} comes from the stored run, which may not set "
                    f"{fault}; if you trust it, add {path}={value}"
                )


def check_links(run_dir: Path) -> None:
    """Raises UserError for links that lead out of a run directory, where a resumed run writes."""
    root = run_dir.resolve()
    for folder, folders, files in os.walk(run_dir):
        if Path(folder).parent == run_dir / "wandb":  # W&B links logs, and writes a new folder
            folders.clear()
            continue
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                raise UserError(
                    f"resume={run_dir}: {path} is a link to {path.resolve()}, and a resumed run "
                    "writes only into its own directory; put a copy in the place of the link"
                )


def is_written(key: str) -> bool:
    """Whether a key names a place that is written.

    >>> is_written("save_dir"), is_written("root")
    (True, False)
    """
    return _WRITTEN.fullmatch(key) is not None


def _fault(path: str, value: Any, inside: Sequence[Path], arguments: frozenset[str]) -> str | None:
    """What a stored run may not set at a key; None if it may set this value."""
    keys, key = path.split("."), _key(path)
    if "_args_" in keys:
        return "positional arguments"
    if keys[0] == "command" and key not in ("_target_", "_partial_"):
        return "arguments of the command"
    if keys[0] == "logger" and len(keys) > 2 and keys[2] not in arguments:
        return "more of a logger than conf/logger does"
    if not isinstance(value, str) or key == "_target_":
        return None
    if _ADDRESS.fullmatch(key) or "://" in value:
        return "addresses, accounts and names of keys"
    if _reads(key) or "part_ckpt" in keys:
        return None
    leaves = is_written(key) or _OUTSIDE.match(value)
    return "a path outside of its directory" if leaves and not _is_in(value, inside) else None


def _reads(key: str) -> bool:
    """Whether the path at a key is only read, wherever it is."""
    return key in (ARGUMENTS - {"cache_dir"}) or key in command_paths().keys() - _USERS


def _is_in(text: str, folders: Sequence[Path]) -> bool:
    try:
        place = Path(text).expanduser().resolve()
    except (ValueError, RuntimeError):  # a null byte; a user that does not exist
        return False
    return any(place.is_relative_to(folder) for folder in folders)


def _is_plain(override: Override, folders: Sequence[Path]) -> bool:
    """Whether an override sets one value, or chooses a file of the user's folders."""
    key, package = override.key_or_group, override.package or ""
    if override.is_sweep_override() or not re.fullmatch(r"\w[\w./-]*", key, re.ASCII):
        return False
    if ".." in key or "hydra" in re.split(r"[./]", key) or re.match(r"hydra\b|_", package):
        return False
    if not any((folder / key).is_dir() for folder in folders):
        return True
    chosen = [str(value) for _, value in _leaves(override.value(), "") if value is not None]
    return not any(".." in name or name.startswith("/") for name in chosen)


def _resolves_more(text: str) -> bool:
    """Whether a text holds an interpolation that is more than a reference to another key."""
    return "${" in _REFERENCE.sub("", text)


def _parsed(argument: str) -> Override | None:
    try:
        return OverridesParser.create().parse_override(argument)
    except HydraException:
        return None


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every value that is no mapping or list, with its dotted key; items have that of the list."""
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from _leaves(child, f"{path}.{_text(key)}" if path else _text(key))
    elif isinstance(value, list) and value:
        for child in value:
            yield from _leaves(child, path)
    else:
        yield path, _text(value) if isinstance(value, QuotedString) else value


def _text(value: Any) -> str:
    return value.text if isinstance(value, QuotedString) else str(value)


def _key(path: str) -> str:
    return path.rpartition(".")[2]


@cache
def _texts_in(folders: tuple[Path, ...]) -> frozenset[tuple[str, str]]:
    """Every text in the files of folders, with its last key."""
    leaves = [leaf for _, content in contents(folders) for leaf in _leaves(content, "")]
    return frozenset((_key(path), value) for path, value in leaves if isinstance(value, str))


@cache
def _arguments_in(folders: tuple[Path, ...]) -> frozenset[str]:
    """The arguments that the files in logger/ name."""
    loggers = [content for file, content in contents(folders) if file.parent == Path("logger")]
    leaves = [leaf for content in loggers for leaf in _leaves(content, "")]
    return frozenset(path.split(".")[1] for path, _ in leaves if "." in path)
