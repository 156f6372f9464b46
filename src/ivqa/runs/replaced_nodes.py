"""Overrides that replace a whole component: callbacks.progress={_target_:CLASS,ARGUMENT:VALUE}."""

from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from ivqa.runs.config_choices import composed_choices

# How the code that reads a node builds it: these keys stay unless the override names them.
_KEPT = ("_partial_", "_convert_", "_recursive_")


def with_replaced_nodes(
    arguments: Sequence[str], folders: Sequence[Path], config_name: str
) -> list[str]:
    """Lets a dictionary with `_target_` replace a node of the configuration.

    Hydra merges a dictionary into the node, so that the arguments of the former class remain, and
    refuses keys that the former class does not take.

    Args:
        arguments: Overrides in Hydra's notation.
        folders: The folders of configuration files: conf/ and those of --config-dir.
        config_name: The command's own file in the first of them, without its ending.

    Returns:
        The overrides. In the place of each such dictionary stand overrides that delete the keys of
        the former node, except `_KEPT`, and one that adds the new ones.
    """
    written: list[str] = []
    for argument in arguments:
        if "=" in argument and "_target_" in argument and _is_component(argument):
            key, _, value = argument.partition("=")
            cfg = composed_choices(arguments, folders, config_name)
            former, (parent, _, last) = OmegaConf.select(cfg, key), key.rpartition(".")
            if isinstance(former, DictConfig):
                # Through a reference to another node, keys would be deleted in that node.
                refers = OmegaConf.is_interpolation(OmegaConf.select(cfg, parent), last)
                kept = [] if refers else [name for name in map(str, former) if name in _KEPT]
                names = [name for name in map(str, former) if name not in kept]
                written += [f"~{key}"] if refers else [f"~{key}.{name}" for name in names]
                argument = f"++{key}={value}"
        written.append(argument)
    return written


def _is_component(argument: str) -> bool:
    """Whether an argument changes the value of a key to a dictionary with `_target_`."""
    try:
        parsed = OverridesParser.create().parse_override(argument)
    except HydraException:
        return False  # Hydra reports it
    value = parsed.value() if parsed.type is OverrideType.CHANGE else None
    return isinstance(value, dict) and "_target_" in map(str, value)
