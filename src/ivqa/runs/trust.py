"""What the configuration of another person's run may name.

resume= replays the overrides of a run, and `ivqa.load` composes its config.yaml. `instantiate`
calls whatever `_target_` names there, so a run that was edited, or came from elsewhere, could call
`os.system`. These configurations may therefore name only what conf/ names, and classes of a few
packages. The packages that the user trusts are added by `trust=[PACKAGE]`.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ivqa.errors import UserError
from ivqa.files import read_yaml
from ivqa.runs.config_values import join
from ivqa.runs.short_forms import key_of

PACKAGES = ("ivqa", "torch", "torchvision", "transformers", "pytorch_lightning")
"""Packages whose classes may be named. Their functions may not: torch.hub.load runs code."""

# Nodes that only look up another name, which is in the key `path`.
_LOOKUPS = {"hydra.utils.get_class", "hydra.utils.get_method", "hydra.utils.get_object"}


def check_targets(cfg: DictConfig, source: str, conf_dir: Path, trust: Iterable[str]) -> None:
    """Checks every `_target_` of a configuration before anything is imported or called.

    Args:
        cfg: The composed configuration of a run.
        source: Names the run in the message.
        conf_dir: The folder of configuration files of the installed package.
        trust: Packages that the user trusts.

    Raises:
        UserError: A target is neither named by a file of `conf_dir`, nor a class of `PACKAGES`, nor
            in a package of `trust`.
    """
    packages = [str(name) for name in trust]
    known = _named_in(conf_dir)
    try:
        content = OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException as error:
        raise UserError(f"{source}: {str(error).splitlines()[0]}") from error
    for name, path in _targets(content):
        root = name.partition(".")[0]
        if root in packages or name in known or (root in PACKAGES and _is_own_class(name)):
            continue
        raise UserError(
            f"{source}: {path} names '{name}', which is neither a class of "
            f"{', '.join(PACKAGES)} nor a component of conf/, and was not run; if you wrote it, "
            f"add trust=[{root}]"
        )


def without_trust(overrides: Iterable[str], file: Path) -> list[str]:
    """The stored overrides of a run, without its own `trust`, which only the user may give.

    Args:
        overrides: The content of overrides.yaml.
        file: Its path, for the message.

    Returns:
        The other overrides.

    Raises:
        UserError: One is an option or a key of Hydra, which ivqa never stores there.
    """
    kept = []
    for item in overrides:
        key = key_of(item)
        if item.startswith("-") or key.partition("@")[0].partition("/")[0].split(".")[0] == "hydra":
            raise UserError(
                f"{file} holds '{item}', which no run of ivqa stores; remove this line if you "
                "trust the rest of the run"
            )
        if key != "trust":
            kept.append(item)
    return kept


def _targets(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every name in a resolved configuration that `instantiate` would look up, with its key."""
    if isinstance(value, list):
        for index, child in enumerate(value):
            yield from _targets(child, f"{path}[{index}]")
    elif isinstance(value, dict):
        if "_target_" in value:
            yield str(value["_target_"]), join(path, "_target_")
            if value["_target_"] in _LOOKUPS:
                yield str(value.get("path")), join(path, "path")
        for key, child in value.items():
            yield from _targets(child, join(path, str(key)))


def _is_own_class(name: str) -> bool:
    """Whether a dotted name is a class that its package defines: torch.os.system is none."""
    try:
        found: Any = get_object(name)
    except Exception:
        return False
    return isinstance(found, type) and found.__module__.partition(".")[0] in PACKAGES


@cache
def _named_in(conf_dir: Path) -> frozenset[str]:
    """All values of `_target_`, and the paths of look-ups, in the files of a folder."""
    files = conf_dir.rglob("*.yaml")
    return frozenset(name for file in files for name, _ in _targets(read_yaml(file, object)))
