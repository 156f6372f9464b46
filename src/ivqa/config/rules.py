"""Rules that several values of a configuration must meet together.

Single values are validated in `values`.
"""

import os
from collections.abc import Iterator, Sequence
from typing import get_args

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.accelerators import AcceleratorRegistry

from ivqa.config.nodes import Node
from ivqa.config.words import shown
from ivqa.device import on_cpu
from ivqa.errors import UserError
from ivqa.scenes import ScenesDataset
from ivqa.store.identity import to_plain
from ivqa.store.signatures import arguments_of, defaults_of

_STAGES = ("train", "val", "test")


def rule_faults(cfg: DictConfig, found: Sequence[Node]) -> list[str]:
    """One sentence for each rule that a configuration breaks whose values are valid one by one."""
    # The model, its parts at any depth and the VQA model.
    models = [(node, prefix) for node, prefix in found if "module" in node]
    return [
        *_arguments(found),
        *_monitors(cfg, models),
        *_augmentation(cfg, models),
        *_closed_answers(models),
        *_witness(cfg),
        *_data_root(cfg),
        *_splits(cfg),
        *_numbers(cfg),
        *(_hardware(cfg) if cfg.get("trainer") else ()),
    ]


def _arguments(found: Sequence[Node]) -> Iterator[str]:
    """Calls `check_arguments` of components that check their arguments against each other."""
    for node, prefix in found:
        if "_target_" in node and not OmegaConf.is_missing(node, "_target_"):
            target = get_object(node._target_)
            if check := getattr(target, "check_arguments", None):
                try:
                    check({**defaults_of(target), **to_plain(node)})
                except UserError as error:
                    yield f"{prefix[:-1]}: {error}"


def _monitors(cfg: DictConfig, models: Sequence[Node]) -> Iterator[str]:
    """The module or a callback must log the monitored value in validation."""
    callbacks = {name: node for name, node in (cfg.get("callbacks") or {}).items() if node}
    of_callbacks = set().union(*map(_logged, callbacks.values())) if callbacks else set()
    watched = {f"{prefix}monitor": (model, model.get("monitor")) for model, prefix in models}
    for name, node in callbacks.items():
        # An interpolation refers to model.monitor, which is already in `watched`.
        if "monitor" in node and not OmegaConf.is_interpolation(node, "monitor"):
            watched[f"callbacks.{name}.monitor"] = (cfg.model, node.monitor)
    for key, (model, monitor) in watched.items():
        logged = _logged(model.module)
        if monitor is not None and logged and monitor not in logged | of_callbacks:
            known = ", ".join(sorted(logged | of_callbacks))
            yield f"{key}={monitor}: {model.name} does not log it; it logs {known}"


def _logged(node: DictConfig) -> set[str]:
    """Names that the class of a node declares to log in validation; empty if it declares none."""
    declared = getattr(get_object(node._target_), "validation_metrics", None)
    return set() if declared is None else set(declared(to_plain(node)))


def _closed_answers(models: Sequence[Node]) -> Iterator[str]:
    """A model whose module requires a closed answer set needs its size."""
    for model, prefix in models:
        taken = arguments_of(get_object(model.module._target_)).get("answers")
        if model.get("num_answers") is None and taken is not None:
            parameter, annotation = taken
            if parameter.default is parameter.empty and type(None) not in get_args(annotation):
                yield (
                    f"{prefix}num_answers=null: {model.name} chooses among a closed set "
                    "of answers; give its size"
                )


def _augmentation(cfg: DictConfig, models: Sequence[Node]) -> Iterator[str]:
    """augment= needs a model, or a part of one, that is trained on questions."""
    if cfg.get("augment") and not any("augment" in model for model, _ in models):
        yield (
            f"augment= is for VQA models that ivqa trains, and model={cfg.model.name} is not one; "
            "leave it out"
        )


def _witness(cfg: DictConfig) -> Iterator[str]:
    """A model that is its own witness confirms all of its errors."""
    measuring = cfg.get("measuring_models") or {}
    witness = (measuring.get("parts") or {}).get("witness")
    if witness is None or (measuring.get("part_ckpt") or {}).get("witness"):
        return
    if to_plain(witness) == to_plain(cfg.get("vqa") or cfg.model):
        yield f"witness={witness.name}: is the model itself; choose another one"


def _data_root(cfg: DictConfig) -> Iterator[str]:
    """The data lie in a folder of this machine."""
    root = str(cfg.data.get("root", "."))
    if not root.strip():
        yield "data.root='': must be the folder that holds the data"
    elif "://" in root:
        yield f"data.root={root}: is an address; download the data and give their folder"


def _splits(cfg: DictConfig) -> Iterator[str]:
    """Scenes have only the splits that data.images lists; other data are checked when read."""
    if get_object(cfg.data._target_) is not ScenesDataset:
        return
    drawn = list(cfg.data.get("images") or _STAGES)
    for key in _STAGES:
        if cfg.data.get(key) is not None and cfg.data[key] not in drawn:
            yield f"data.{key}={cfg.data[key]}: must be one of {', '.join(drawn)}, or null"
    asked = {"split": cfg.get("split")}
    for number, name in enumerate((cfg.get("bqd") or {}).get("splits") or []):
        asked[f"bqd.splits[{number}]"] = name
    valid = list(dict.fromkeys([*_STAGES, *drawn]))
    for key, name in asked.items():
        if name is not None and name not in valid:
            yield f"{key}={name}: must be one of {', '.join(valid)}"


def _numbers(cfg: DictConfig) -> Iterator[str]:
    if "num_shards" in cfg and cfg.shard >= cfg.num_shards:
        yield (
            f"shard={cfg.shard}: must be below num_shards={cfg.num_shards}; shards are numbered "
            "from 0"
        )
    if "distinct" in cfg and cfg.num_latents % cfg.distinct:
        yield f"num_latents={cfg.num_latents} must be a multiple of distinct={cfg.distinct}"


def _hardware(cfg: DictConfig) -> Iterator[str]:
    cpu = on_cpu(cfg.trainer.accelerator)
    yield from _devices(cfg.trainer, cpu)
    yield from _processes(cfg, cpu)


def _devices(trainer: DictConfig, cpu: bool) -> Iterator[str]:
    """The machine must have the requested devices.

    Lightning starts one process for each requested device and waits for all of them.
    """
    accelerator, devices = trainer.accelerator, trainer.devices
    if accelerator not in ("auto", "gpu"):
        if not AcceleratorRegistry[accelerator]["accelerator"].is_available():
            yield f"trainer.accelerator={accelerator}: this machine has none; pass auto or cpu"
            return
    elif accelerator == "gpu" and not torch.accelerator.is_available():
        yield "trainer.accelerator=gpu: this machine has none; pass auto or cpu"
        return
    available = (os.cpu_count() or 1) if cpu else torch.accelerator.device_count()
    kind = "CPU cores" if cpu else "accelerators"
    wrong = f"trainer.devices={shown(to_plain(devices))}: this machine has {available} {kind}"
    if isinstance(devices, str) and devices not in ("auto", "-1"):
        numbers = devices.split(",")
        if not all(number.strip().isdigit() for number in numbers):
            yield f"trainer.devices={devices}: must be auto, a number or a list of numbers"
            return
        devices = int(devices) if len(numbers) == 1 else list(map(int, numbers))
    if isinstance(devices, int):
        if devices > available or (devices == -1 and cpu):
            yield wrong
    # A list selects devices by number, which CPU cores do not have.
    elif not isinstance(devices, str) and (cpu or max(devices) >= available):
        yield wrong


def _processes(cfg: DictConfig, cpu: bool) -> Iterator[str]:
    """Only train.py uses several processes, and all of them must know one run directory."""
    trainer = cfg.trainer
    devices, nodes = trainer.devices, trainer.get("num_nodes", 1)
    if isinstance(devices, str) or devices == -1:
        several = not cpu and torch.accelerator.device_count() > 1
    else:
        several = (devices if isinstance(devices, int) else len(devices)) > 1
    if not several and nodes == 1:
        if cfg.task == "diagnose" and _started_by_torchrun_without_directory():
            yield "torchrun starts processes that share a run; pass output_dir=DIR"
        return
    setting = (
        f"trainer.devices={shown(to_plain(devices))}" if several else f"trainer.num_nodes={nodes}"
    )
    if cfg.task != "train":
        yield (
            f"{setting}: only train.py trains with several processes; train the model with it, and "
            "this command finds it in the artifact store"
        )
    elif HydraConfig.initialized():
        hydra_cfg = HydraConfig.get()
        if hydra_cfg.mode is RunMode.MULTIRUN and "SLURM_NTASKS" not in os.environ:
            yield (
                f"{setting}: with -m, Lightning cannot start the other processes; leave -m out, or "
                "let Slurm start them"
            )
        if _started_by_torchrun_without_directory():
            yield f"{setting}: torchrun starts processes that share a run; pass output_dir=DIR"


def _started_by_torchrun_without_directory() -> bool:
    if "TORCHELASTIC_RUN_ID" not in os.environ or not HydraConfig.initialized():
        return False
    overrides = HydraConfig.get().overrides.task
    return not any(item.startswith("output_dir=") for item in overrides)
