"""Checks of a whole configuration before any work starts; all faults are reported at once."""

import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException

from ivqa.config.rules import rule_faults
from ivqa.config.values import Node, nodes, value_faults
from ivqa.config.words import shown
from ivqa.errors import UserError, reason_of
from ivqa.store.signatures import arguments_of

# Keys that Hydra's `instantiate` reads beside every _target_.
_INSTANTIATE_WORDS = {"_target_", "_partial_", "_convert_", "_recursive_", "_args_"}


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


def check_config(cfg: DictConfig) -> None:
    """Checks that every value is set, resolves and is valid, and that every key is read.

    A key is known if the same choice of files has it without other overrides, or if the enclosing
    `_target_` has an argument of this name. Hydra itself refuses `typo=1`; this check also refuses
    `+typo=1`. The UserError lists all faults.
    """
    reference = _same_choices(cfg)
    found = [*nodes(cfg)]
    chosen = [*nodes(reference)] if reference is not None else []
    faults = [f"{key} must be set{_to_what(cfg, key)}" for key in sorted(missing_keys(found))]
    if reference is not None:
        faults += [
            f"{group} must be set; choose a file of conf/{group}"
            for group in ("data", "model", "trainer")
            if group in reference and not isinstance(cfg.get(group), DictConfig)
        ]
        faults += _deleted(cfg, chosen)
    try:
        OmegaConf.missing_keys(cfg)  # resolves all interpolations of nodes
    except InterpolationResolutionError as error:  # nothing else can be checked
        if faults:
            raise UserError("configuration: " + "; ".join(faults)) from error
        reason = str(error).splitlines()[0]
        raise UserError(
            f"configuration: {error.full_key} does not resolve ({reason}); choose a file of that "
            "group, such as vqa=mlb"
        ) from error
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
    # Values are validated only if all keys are valid, and rules only if all values are.
    faults = faults or value_faults(cfg, found) or rule_faults(cfg, found)
    if faults:
        raise UserError("configuration: " + "; ".join(faults))


def _to_what(cfg: DictConfig, key: str) -> str:
    """What the missing `path` of a model is; "" for another key."""
    parent, _, last = key.rpartition(".")
    model = OmegaConf.select(cfg, parent) if parent else cfg
    if last != "path" or "module" not in model:
        return ""
    if "base_url" in model:
        return " to the name of the served model, as BASE_URL/models lists it"
    return " to a folder that save_pretrained wrote, or to a hub id"


def _deleted(cfg: DictConfig, chosen: Sequence[Node]) -> list[str]:
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


def _same_choices(cfg: DictConfig) -> DictConfig | None:
    """The job's configuration with the same choices of files and no other override.

    Groups that the job sets to null keep their default, so that their keys stay known. It is the
    job's configuration itself where no override can add or delete a key, which saves a third of
    the time of Hydra.
    """
    if not (HydraConfig.initialized() and GlobalHydra.instance().is_initialized()):
        return None  # a job of a remote launcher, which the submitting process has checked
    hydra_cfg: Any = HydraConfig.get()
    overrides = list(hydra_cfg.overrides.task)
    if not any(item[0] in "+~" or "{" in item or item.endswith("=null") for item in overrides):
        return cfg
    # The folders of plug-ins are an override too.
    folders = [item for item in hydra_cfg.overrides.hydra if item.startswith("hydra.searchpath=")]
    choices = [
        override
        for override in overrides
        if override.split("=", 1)[0].lstrip("+") in hydra_cfg.runtime.choices
        and not override.endswith("=null")
    ]
    return (
        GlobalHydra.instance()
        .config_loader()
        .load_configuration(
            config_name=hydra_cfg.job.config_name,
            overrides=[*folders, *choices],
            run_mode=RunMode.RUN,
        )
    )
