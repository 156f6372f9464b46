"""Builds the configured callbacks."""

import math
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig

from ivqa.data import VQADataModule
from ivqa.vqa import MeasuringCallback


def build_callback(node: DictConfig, measuring_models: Mapping[str, Any]) -> Any:
    """Builds a callback with those of the trained models that its constructor declares by name."""
    taken = signature(get_object(node._target_)).parameters
    return instantiate(
        node, **{name: one for name, one in measuring_models.items() if name in taken}
    )


def build_callbacks(cfg: DictConfig, measuring_models: Mapping[str, Any]) -> list[pl.Callback]:
    """Builds the configured callbacks in their order; a null entry switches one off."""
    return [
        build_callback(node, measuring_models) for node in (cfg.callbacks or {}).values() if node
    ]


def measured(
    cfg: DictConfig,
    measuring_models: Mapping[str, Any],
    module: Any,
    datamodule: VQADataModule,
    split: str,
    run_dir: Path,
) -> dict[str, float]:
    """Runs the configured measurements outside of a Trainer: noise, beliefs.

    `module` is a VQA model, which need not be a LightningModule; `split` a stage or a name.

    Returns:
        The figures by name; empty without such a callback.
    """
    metrics: dict[str, float] = {}
    for callback in build_callbacks(cfg, measuring_models):
        if isinstance(callback, MeasuringCallback):
            metrics |= callback.metrics(module, datamodule, split, run_dir)
    return applicable(metrics)


def applicable(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics without those that do not apply, which are NaN."""
    return {name: float(value) for name, value in metrics.items() if not math.isnan(value)}
