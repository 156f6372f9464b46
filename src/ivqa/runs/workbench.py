"""What every command prepares: checked configuration, data, features, vocabularies, batches."""

import logging
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, open_dict
from rich.console import Console
from torch import nn

from ivqa.code_digest import code_digest
from ivqa.data import (
    BatchContents,
    BatchSettings,
    VQADataModule,
    VQADataset,
    build_vocabularies,
)
from ivqa.device import fastest_dtype, on_cpu, uses_avx512
from ivqa.errors import UserError
from ivqa.features import FeatureStore
from ivqa.files import content_digest
from ivqa.identity import decisive
from ivqa.integrity import MANIFEST, damage
from ivqa.released import Released, catalogue, find
from ivqa.runs.artifact_store import ArtifactStore
from ivqa.runs.config_checks import plain
from ivqa.runs.data_checks import check_data, check_offered, wanted_features
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary

# Settings of a Trainer that say nothing while they have its own default.
_TRAINER_DEFAULTS = {"limit_train_batches": 1.0, "limit_val_batches": 1.0}

# Settings of a Trainer that change where and how it runs, not what it learns.
_MACHINE_SETTINGS = {
    "accelerator",
    "devices",
    "strategy",
    "num_nodes",
    "logger",
    "default_root_dir",
    "log_every_n_steps",
    "profiler",
    "enable_progress_bar",
    "enable_model_summary",
    "enable_checkpointing",
    "num_sanity_val_steps",
}


# Settings of a model that act through the trainer, the batch size or the parts, or not at all.
_INDIRECT_SETTINGS = {
    "name",
    "batch_size",
    "epochs",
    "epoch_steps",
    "gradient_clip",
    "part_ckpt",
    "parts",
    "pool_answers",
    "val_batches",
}


@dataclass(frozen=True)
class Vocabularies:
    """Words of training questions and answers, and the closed answer set A where one is used."""

    question_vocabulary: Vocabulary
    answer_words: Vocabulary
    answers: AnswerVocabulary | None = None

    @classmethod
    def of(cls, component: Mapping[str, Any]) -> "Vocabularies":
        """Those that a checkpoint was trained with."""
        return cls(Vocabulary([]), Vocabulary([])).restored(component)

    def restored(self, component: Mapping[str, Any]) -> "Vocabularies":
        """Those that a checkpoint was trained with; where it names none, these."""
        known: dict[str, Any] = {}
        if "question_words" in component:
            known["question_vocabulary"] = Vocabulary(component["question_words"])
        if "answer_words" in component:
            known["answer_words"] = Vocabulary(component["answer_words"])
        if "answers" in component:
            known["answers"] = AnswerVocabulary(component["answers"])
        return replace(self, **known)


@dataclass(frozen=True)
class Workbench:
    """Data, features and vocabularies of one configuration; built by `open_workbench`.

    is_part: whether its model is a part of another command's model, and not what the command is
    about.
    """

    cfg: DictConfig
    store: ArtifactStore
    dataset: VQADataset
    features: FeatureStore | None
    console: Console
    is_part: bool = False

    @cached_property
    def vocabularies(self) -> Vocabularies:
        """Of the training split; A holds its model.num_answers most frequent main answers."""
        train = self.dataset.split("train")
        words = build_vocabularies(train, self.cfg.min_word_count)
        size = self.cfg.model.num_answers
        answers = None if size is None else AnswerVocabulary.build(train.main_answers, size)
        return Vocabularies(*words, answers)

    @property
    def feature_sizes(self) -> dict[str, int]:
        """Last dimension of each image feature that the model reads."""
        sizes = self.features.sizes if self.features is not None else {}
        return {name: sizes[name] for name in self.cfg.model.image_features}

    def for_model(self, model: DictConfig, ckpt: str) -> "Workbench":
        """The same data and features for another model, such as a part of this one.

        It trains as its own configuration says: overrides of how long this one trains, and in
        what batches, are not meant for it.
        """
        cfg = self.cfg.copy()
        with open_dict(cfg):
            cfg.model = plain(model)
            cfg.ckpt = ckpt
            cfg.batch_size = cfg.model.batch_size
            cfg.trainer.max_epochs = cfg.model.epochs
            cfg.trainer.gradient_clip_val = cfg.model.gradient_clip
            cfg.trainer.limit_train_batches = cfg.model.get("epoch_steps", 1.0)
            cfg.trainer.limit_val_batches = cfg.model.get("val_batches", 1.0)
        return replace(self, cfg=cfg, is_part=True)

    @property
    def parts(self) -> dict[str, "Workbench"]:
        """The workbench of each trained model that this one is built of, by argument name."""
        model = self.cfg.model
        return {
            name: self.for_model(part, model.part_ckpt[name])
            for name, part in (model.get("parts") or {}).items()
        }

    def source_identity(self) -> Any:
        """The identity of the model that cfg.ckpt asks for."""
        ckpt = str(self.cfg.ckpt)
        if self.released is not None:
            return {"released": self.released.digest}
        if ckpt == "auto" or self.cfg.model.get("pretrained"):
            return self.model_identity()
        return {"checkpoint": content_digest(ckpt) or ckpt}

    @cached_property
    def released(self) -> Released | None:
        """The released weights of this part, where cfg.pretrained asks for them and they fit.

        A command that trains or evaluates the model itself trains it: released weights have one
        seed, so several seeds would show no deviation. What is in the artifact store comes first.
        """
        cfg = self.cfg
        if not self.is_part:
            return None
        if not cfg.get("pretrained") or str(cfg.ckpt) != "auto" or cfg.model.get("pretrained"):
            return None
        if cfg.model.name not in catalogue():
            return None
        if damage(self.store_folder / MANIFEST) is None:
            return None
        return find(cfg.model.name, self.release_identity(), self.code())

    @property
    def store_folder(self) -> Path:
        """Where the artifact store keeps this model once it is trained."""
        return self.store.folder("models", self.cfg.model.name, self.model_identity())

    def code(self) -> str:
        """The digest of the classes which the model names, and of the batches."""
        model = {k: v for k, v in plain(self.cfg.model).items() if k not in _INDIRECT_SETTINGS}
        return code_digest([*_targets(decisive(model)), "ivqa.data.datamodule"])

    def release_identity(self) -> dict[str, Any]:
        """The data and configuration that released weights are for.

        Unlike `model_identity` it leaves out the seed, the precision and the code: one training
        stands for all of them, and the code is compared apart.
        """
        identity = {k: v for k, v in self.model_identity().items() if k not in ("code", "seed")}
        identity["trainer"] = {k: v for k, v in identity["trainer"].items() if k != "precision"}
        identity["parts"] = {name: part.release_identity() for name, part in self.parts.items()}
        if wanted_features(self.cfg.model):
            identity["features"] = instantiate(self.cfg.features).identity(self.dataset)
        return identity

    def datamodule(self, vocabularies: Vocabularies, module: nn.Module) -> VQADataModule:
        """Batches for `module` in the given vocabularies: the training ones, or a checkpoint's."""
        cfg = self.cfg
        answers = getattr(module, "answers", None) or vocabularies.answers
        closed = answers is not None
        return VQADataModule(
            dataset=self.dataset,
            features=self.features,
            question_vocabulary=vocabularies.question_vocabulary,
            answer_words=vocabularies.answer_words,
            answer_vocabulary=answers,
            contents=BatchContents(
                image_features=tuple(wanted_features(cfg.model)),
                soft_targets=closed,
                answer_counts=closed and getattr(module, "learns_counts", False),
                encode_layouts=getattr(getattr(module, "network", None), "encode_layouts", None),
            ),
            batching=BatchSettings(
                batch_size=cfg.batch_size,
                length_window=cfg.model.get("length_window", 1),
                max_question_length=cfg.max_question_length,
                drop_unknown_answers=closed,
                seed=cfg.seed,
                num_workers=cfg.num_workers,
            ),
            augmentation=instantiate(cfg.model.augment) if cfg.model.get("augment") else None,
        )

    def model_identity(self) -> dict[str, Any]:
        """All that determines the trained weights: the key of the artifact store.

        "code" is that of the classes which the model names, and of the batches; the rest is data
        and settings. A part counts by its own identity, or by the content of its checkpoint.
        """
        cfg = self.cfg
        model = {k: v for k, v in plain(cfg.model).items() if k not in _INDIRECT_SETTINGS}
        if cfg.model.get("pretrained"):
            settings = decisive(model)
            return {"model": settings, "code": code_digest(_targets(settings))}
        trainer = {
            key: value
            for key, value in plain(cfg.trainer).items()
            if key not in _MACHINE_SETTINGS and _TRAINER_DEFAULTS.get(key) != value
        }
        return {
            "data": self.dataset.fingerprint(),
            "splits": [cfg.data.train, cfg.data.val],
            "features": self.features.key if self.features and wanted_features(cfg.model) else None,
            "model": decisive(model),
            "parts": {name: part.source_identity() for name, part in self.parts.items()},
            "code": self.code(),
            "trainer": trainer,
            "seed": cfg.seed,
            "batch_size": cfg.batch_size,
            "max_question_length": cfg.max_question_length,
            "min_word_count": cfg.min_word_count,
        }


def open_workbench(cfg: DictConfig, splits: list[str], unscored: Collection[str] = ()) -> Workbench:
    """Reads and validates the data of `splits`; trains and computes nothing.

    Args:
        cfg: The configuration of the command.
        splits: Stages or names of the splits that it uses.
        unscored: Those of them that may lack annotations.

    Returns:
        Data and vocabularies, without features.

    Raises:
        UserError: naming what does not fit, before features are computed or anything trains.
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
    """The same of a configuration that was checked, such as that of a workbench or of a part."""
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
    """The workbench with the image features of `splits`, computed or found in the store.

    Raises:
        UserError: The model reads features that cannot be had.
    """
    cfg, dataset = bench.cfg, bench.dataset
    if not wanted_features(cfg.model):
        return bench  # a text-only model needs no images, whatever features= says
    features = _build_features(cfg, dataset, splits, bench.store.root / "features")
    return replace(bench, features=features)


def _precision(accelerator: str) -> str:
    """Mixed where it is faster whatever the size of the model, as it is on new processors."""
    mixed = on_cpu(accelerator) and fastest_dtype() is torch.bfloat16
    return "bf16-mixed" if mixed else "32-true"


def _check_precision(trainer: DictConfig) -> None:
    """Raises UserError for bfloat16 on a processor for which oneDNN has no LSTM in it."""
    if (
        not uses_avx512()
        and on_cpu(trainer.accelerator)
        and str(trainer.precision).startswith("bf16")
    ):
        raise UserError(
            f"trainer.precision={trainer.precision} needs a processor with AVX-512, and this one "
            "has none; set trainer.precision=auto, which takes what the machine at hand is fast at"
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
    check_offered(cfg.model, features.sizes)  # by components of one's own, known only now
    return features


def _check_augmentation(cfg: DictConfig) -> None:
    """Raises UserError where training questions are to be disturbed, and no model reads any."""

    def reads_questions(model: DictConfig) -> bool:
        return "augment" in model or any(map(reads_questions, (model.get("parts") or {}).values()))

    if cfg.augment and not reads_questions(cfg.model):
        raise UserError(
            f"augment= is for VQA models that are trained here, and model={cfg.model.name} is "
            "none; leave it out"
        )


def _targets(settings: Any) -> list[Any]:
    """The classes and functions that a configuration names, at any depth."""
    if isinstance(settings, dict):
        own = [get_object(settings["_target_"])] if "_target_" in settings else []
        return own + [found for value in settings.values() for found in _targets(value)]
    if isinstance(settings, list):
        return [found for value in settings for found in _targets(value)]
    return []


def _quieten() -> None:
    """Leaves the terminal to what a user asked for: progress, tables, errors."""
    for name in ("pytorch_lightning", "lightning.pytorch", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
