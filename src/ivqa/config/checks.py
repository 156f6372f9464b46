"""Checks of a whole configuration before any work starts; all faults are reported at once."""

from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from ivqa.config.nodes import key_faults, nodes
from ivqa.config.rules import rule_faults
from ivqa.config.values import value_faults
from ivqa.errors import UserError


def check_config(cfg: DictConfig) -> None:
    """Checks that every value is set, resolves and is valid, and that every key is read.

    A key is known if the same choice of files has it without other overrides, or if the enclosing
    `_target_` has an argument of this name. Hydra itself refuses `typo=1`; this check also refuses
    `+typo=1`. The UserError lists all faults.
    """
    reference = _same_choices(cfg)
    found = [*nodes(cfg)]
    # Values are validated only if all keys are valid, and rules only if all values are.
    faults = (
        key_faults(cfg, found, reference) or value_faults(cfg, found) or rule_faults(cfg, found)
    )
    if faults:
        raise UserError("configuration: " + "; ".join(faults))


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
