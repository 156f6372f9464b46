"""Preparation of a command: precision, data, checks of the data, image features."""

import logging
import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, open_dict
from rich.console import Console

from ivqa.data import VQADataset
from ivqa.device import fastest_dtype, on_cpu, uses_avx512
from ivqa.errors import UserError
from ivqa.features import FeatureStore
from ivqa.runs.artifact_store import ArtifactStore
from ivqa.runs.data_checks import check_data, check_offered, wanted_features
from ivqa.runs.workbench import Workbench


def open_workbench(cfg: DictConfig, splits: list[str], unscored: Collection[str] = ()) -> Workbench:
    """Reads and validates the data of `splits`; trains and computes nothing.

    Args:
        cfg: The configuration of the command.
        splits: Stages or names of the splits that the command uses.
        unscored: The splits among them that may lack annotations.

    Returns:
        The workbench, without features.

    Raises:
        UserError: The data or the machine do not fit the configuration.
    """
    _check_augmentation(cfg)
    with open_dict(cfg):
        if cfg.trainer.precision == "auto":
            cfg.trainer.precision = _precision(cfg.trainer.accelerator)
    _check_precision(cfg.trainer)
    return prepare_workbench(cfg, splits, unscored)


def prepare_workbench(
    cfg: DictConfig, splits: list[str], unscored: Collection[str] = ()
) -> Workbench:
    """Reads and validates data for a configuration whose precision is already set and checked.

    Args:
        cfg: The configuration.
        splits: Stages or names of the splits to read.
        unscored: The splits among them that may lack annotations.

    Returns:
        The workbench, without features.
    """
    _quieten()
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    console = Console()
    store = ArtifactStore(cfg.artifacts)
    dataset = instantiate(cfg.data)
    for split in splits:
        dataset.split(split)
    check_data(cfg, dataset, splits, unscored)
    return Workbench(cfg, store, dataset, None, console)


def with_features(bench: Workbench, splits: list[str]) -> Workbench:
    """Adds the image features that the model and its parts read.

    Args:
        bench: The workbench.
        splits: Stages or names of the splits to compute features for.

    Returns:
        The workbench with features, computed now or found in the store; unchanged for a text-only
        model.

    Raises:
        UserError: The model reads features that features= does not offer, or the data have no
            images.
    """
    cfg, dataset = bench.cfg, bench.dataset
    if not wanted_features(cfg.model):
        return bench
    features = _build_features(cfg, dataset, splits, bench.store.root / "features")
    return replace(bench, features=features)


def _precision(accelerator: str) -> str:
    """bf16-mixed on CPUs with fast bfloat16, where it speeds up every model; 32-true elsewhere."""
    mixed = on_cpu(accelerator) and fastest_dtype() is torch.bfloat16
    return "bf16-mixed" if mixed else "32-true"


def _check_precision(trainer: DictConfig) -> None:
    """Raises UserError for bfloat16 on a CPU without AVX-512: oneDNN has no bfloat16 LSTM there."""
    if (
        not uses_avx512()
        and on_cpu(trainer.accelerator)
        and str(trainer.precision).startswith("bf16")
    ):
        raise UserError(
            f"trainer.precision={trainer.precision} needs a processor with AVX-512, and this one "
            "has none; set trainer.precision=auto, which chooses the fastest one of this machine"
        )


def _build_features(
    cfg: DictConfig, dataset: VQADataset, splits: list[str], root: Path
) -> FeatureStore:
    wanted = wanted_features(cfg.model)
    if not cfg.features:
        raise UserError(
            f"model={cfg.model.name} reads the image features {wanted}, but features=none; "
            "choose features=concepts or a backbone, or a model without images"
        )
    if not dataset.has_images:
        raise UserError(
            f"model={cfg.model.name} reads the image features {wanted}, but {dataset.root} has no "
            "images; choose features=none and a model without images, such as ivqa_answer_only"
        )
    features = instantiate(cfg.features).build(dataset, splits, root)
    check_offered(cfg.model, features.sizes)  # a user's own features= may not declare it before
    return features


def _check_augmentation(cfg: DictConfig) -> None:
    """Raises UserError for augment= if neither the model nor a part is trained on questions."""

    def reads_questions(model: DictConfig) -> bool:
        return "augment" in model or any(map(reads_questions, (model.get("parts") or {}).values()))

    if cfg.augment and not reads_questions(cfg.model):
        raise UserError(
            f"augment= is for VQA models that ivqa trains, and model={cfg.model.name} is not one; "
            "leave it out"
        )


def _quieten() -> None:
    """Silences informational messages of Lightning; progress, tables and errors stay."""
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
