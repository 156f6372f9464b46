"""Preparation of a command: data, checks of the data, image features."""

import logging
import warnings
from collections.abc import Collection
from dataclasses import replace

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig

from ivqa.errors import UserError
from ivqa.runs.data_checks import check_data, check_offered
from ivqa.runs.own_components import try_models, try_text_components
from ivqa.runs.workbench import Workbench
from ivqa.terminal import terminal


def open_workbench(cfg: DictConfig, splits: list[str], unscored: Collection[str] = ()) -> Workbench:
    """Reads and validates the data of `splits`; trains and computes nothing.

    Args:
        cfg: The configuration of the command, checked and with a set precision.
        splits: Stages or names of the splits that the command uses.
        unscored: The splits among them that may lack annotations.

    Returns:
        The workbench, without features.

    Raises:
        UserError: The data do not fit the configuration.
    """
    _quieten()
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    dataset = instantiate(cfg.data)
    for split in splits:
        dataset.split(split)
    bench = Workbench(cfg, dataset, None, terminal())
    check_data(bench, splits, unscored)
    if splits:
        try_text_components(cfg, dataset, splits[0])
    return bench


def with_features(bench: Workbench, splits: list[str]) -> Workbench:
    """Adds the image features that the model, its parts and the models of callbacks read.

    Args:
        bench: The workbench.
        splits: Stages or names of the splits to compute features for.

    Returns:
        The workbench with features, computed now or found in the store; unchanged for a text-only
        model.

    Raises:
        UserError: The model reads features that features= does not offer, the data have no
            images, or a model or reward of the user fails on two questions.
    """
    bench = _with_features(bench, splits)
    try_models(bench)
    return bench


def _with_features(bench: Workbench, splits: list[str]) -> Workbench:
    readers = [one for one in (bench, *bench.probe.values()) if one.wanted_features]
    if not readers:
        return bench
    model, wanted = readers[0].cfg.model.name, readers[0].wanted_features
    if not bench.cfg.features:
        raise UserError(
            f"model={model} reads the image features {wanted}, but features=none; "
            "choose features=concepts or a backbone, or a model without images"
        )
    if not bench.dataset.has_images:
        raise UserError(
            f"model={model} reads the image features {wanted}, but {bench.dataset.root} has no "
            "images; choose features=none and a model without images, such as ivqa_answer_only"
        )
    features = instantiate(bench.cfg.features).build(
        bench.dataset, splits, bench.store.root / "features"
    )
    for reader in readers:
        check_offered(reader, features.sizes)  # a user's own features= may not declare it before
    return replace(bench, features=features)


def with_compared_images(bench: Workbench, split: str) -> Workbench:
    """Adds features for a benchmark that compares images, where the model itself reads none.

    Question pools need similar images, and must be the same for every model.

    Args:
        bench: The workbench.
        split: Stage or name of the split.

    Returns:
        The workbench with features; unchanged if it has some, or the benchmark or the data need
        none.
    """
    cfg = bench.cfg
    compares = (cfg.model.get("benchmark") or {}).get("pools") is not None
    if bench.features is not None or not compares or not cfg.features:
        return bench
    if not bench.dataset.has_images:
        return bench
    features = instantiate(cfg.features).build(
        bench.dataset, [split], bench.store.root / "features"
    )
    return replace(bench, features=features)


def _quieten() -> None:
    """Silences informational messages of Lightning; progress, tables and errors stay."""
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    # A validation restores weights alone, so the callbacks of the training are not needed.
    warnings.filterwarnings("ignore", message=".*callbacks used to create the checkpoint.*")
