"""Preparation of a command: data, checks of the data, image features."""

import logging
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

import pytorch_lightning as pl
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.utilities.warnings import PossibleUserWarning

from ivqa.errors import UserError
from ivqa.provenance import note_data
from ivqa.released import TRAINING_NAME, Released, find
from ivqa.runs.context import RunContext
from ivqa.runs.data_checks import check_data, check_offered
from ivqa.runs.own_components import try_models, try_text_components
from ivqa.scenes import ScenesDataset
from ivqa.terminal import terminal


def open_context(cfg: DictConfig, splits: list[str], unscored: Collection[str] = ()) -> RunContext:
    """Reads and validates the data of `splits`; trains and computes nothing.

    Args:
        cfg: The configuration of the command, checked and with a set precision.
        splits: Stages or names of the splits that the command uses.
        unscored: The splits among them that may lack annotations.

    Raises:
        UserError: The data do not fit the configuration.
    """
    context = _unread(cfg)
    _read(context, splits, unscored)
    return context


def open_for_pictures(
    cfg: DictConfig, splits: list[str], models: Callable[[RunContext], Iterable[RunContext]]
) -> RunContext:
    """`open_context` for models that read given pictures; with released weights it reads no data.

    Args:
        splits: The splits that the training of the models needs.
        models: Returns the contexts of the models.

    Returns:
        The context; its `training` is set where no data were read.
    """
    context = _unread(cfg)
    training = _released_training(context) if splits else None
    if training is not None:
        trial = replace(context, training=training, is_part=True)
        needed = [one for model in models(trial) for one in with_features(model, []).models()]
        if all(one.released is not None for one in needed):
            _read(context, [])
            note_data(context.dataset.title)
            return replace(context, training=training)
    _read(context, splits)
    return context


def _unread(cfg: DictConfig) -> RunContext:
    _quieten()
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    return RunContext(cfg, instantiate(cfg.data), None, terminal())


def _read(context: RunContext, splits: list[str], unscored: Collection[str] = ()) -> None:
    for split in splits:
        context.dataset.split(split)
    check_data(context, splits, unscored)
    if splits:
        note_data(context.dataset.title)
        try_text_components(context.cfg, context.dataset, splits[0])


def _released_training(context: RunContext) -> Released | None:
    """What is released about the training data, if data, features and code fit."""
    features = instantiate(context.cfg.features) if context.cfg.features else None
    if features is None or not hasattr(features, "identity") or not context.cfg.pretrained:
        return None
    if not isinstance(context.dataset, ScenesDataset):  # the key of others reads all their files
        return None
    return find(TRAINING_NAME, features.identity(context.dataset), features.code())


def with_features(context: RunContext, splits: list[str]) -> RunContext:
    """Adds the image features that the model, its parts and the models of callbacks read.

    They are computed for the splits, or found in the store. A text-only model needs none.

    Raises:
        UserError: The model reads features that features= does not offer, the data have no
            images, or a model or reward of the user fails on two questions.
    """
    context = _with_features(context, splits)
    if "train" in splits:  # whose questions and features a trial takes; else nothing is trained
        try_models(context)
    return context


def _with_features(context: RunContext, splits: list[str]) -> RunContext:
    readers = [one for one in (context, *context.measuring_models.values()) if one.wanted_features]
    if not readers:
        return context
    model, wanted = readers[0].cfg.model.name, readers[0].wanted_features
    if not context.cfg.features:
        raise UserError(
            f"model={model} reads the image features {wanted}, but features=none; "
            "choose features=concepts or a backbone, or a model without images"
        )
    if context.training is None and not context.dataset.has_images:
        raise UserError(
            f"model={model} reads the image features {wanted}, but {context.dataset.root} has no "
            "images; choose features=none and a model without images, such as ivqa_answer_only"
        )
    features = instantiate(context.cfg.features).build(
        context.dataset, splits, context.store.root / "features"
    )
    for reader in readers:
        check_offered(reader, features.sizes)  # a user's own features= may not declare it before
    return replace(context, features=features)


def with_compared_images(context: RunContext, split: str) -> RunContext:
    """Adds features for a benchmark that compares images, where the model itself reads none.

    Question pools need similar images, and must be the same for every model. The context stays
    unchanged if it has features, or the benchmark or the data need none.
    """
    cfg = context.cfg
    compares = (cfg.model.get("benchmark") or {}).get("pools") is not None
    if context.features is not None or not compares or not cfg.features:
        return context
    if not context.dataset.has_images:
        return context
    features = instantiate(cfg.features).build(
        context.dataset, [split], context.store.root / "features"
    )
    return replace(context, features=features)


def _quieten() -> None:
    """Silences messages of Lightning that ask for nothing; progress, tables and errors stay."""
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Few workers, epochs shorter than trainer.log_every_n_steps, resuming within an epoch.
    warnings.filterwarnings("ignore", category=PossibleUserWarning)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    warnings.filterwarnings("ignore", message=".*Checkpoint directory .* is not empty.*")
    warnings.filterwarnings("ignore", message=".*resuming from a checkpoint that ended before.*")
    # A validation restores weights alone, so the callbacks of the training are not needed.
    warnings.filterwarnings("ignore", message=".*callbacks used to create the checkpoint.*")
