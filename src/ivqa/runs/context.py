"""The data, features and vocabularies of a command, and the identity of its model."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, open_dict
from pytorch_lightning import Trainer
from rich.console import Console
from torch import nn

from ivqa.answer_aware import DualModule
from ivqa.config.keys import model_keys
from ivqa.config.model_sources import ModelSource, Pretrained, source_of
from ivqa.data import (
    BatchContents,
    BatchSettings,
    VQADataModule,
    VQADataset,
    build_vocabularies,
)
from ivqa.features import FeatureStore, PixelStore
from ivqa.ranges import NO_EFFECT
from ivqa.released import Released, catalogue, find
from ivqa.runs.loggers import loggers_of_part
from ivqa.runs.vocabularies import Vocabularies
from ivqa.store.artifact_store import ArtifactStore
from ivqa.store.digests import content_digest, digest
from ivqa.store.identity import code_of, result_settings, to_plain
from ivqa.store.signatures import marked
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa import MeasuringCallback


@dataclass(frozen=True)
class RunContext:
    """Data, features and vocabularies of one configuration; `open_context` builds it.

    Attributes:
        features: Image features; None for text-only models and before `with_features`.
        is_part: Whether the model serves another purpose than its own training, as the generator
            of a policy does. It may then have released weights.
        announced: Names of released weights that were already reported; shared with the parts.
        other_data: The data of model.trained_on by their settings; shared with the parts.
        training: What is released about the training data, which are then not read; see
            `open_for_pictures`. None where they are read.
    """

    cfg: DictConfig
    dataset: VQADataset
    features: FeatureStore | PixelStore | None
    console: Console
    is_part: bool = False
    announced: set[str] = field(default_factory=set, compare=False)
    other_data: dict[str, VQADataset] = field(default_factory=dict, compare=False)
    training: Released | None = None

    @cached_property
    def store(self) -> ArtifactStore:
        """The artifact store, which holds trained models and features."""
        return ArtifactStore(self.cfg.artifacts)

    @cached_property
    def vocabularies(self) -> Vocabularies:
        """Vocabularies of the training split.

        The closed answer set contains the model.num_answers most frequent main answers. They are
        empty where the training data are not read: released weights bring their own.
        """
        if self.training is not None:
            return Vocabularies(Vocabulary([]), Vocabulary([]))
        train = self.dataset.split("train")
        words = build_vocabularies(train, self.cfg.min_word_count)
        size = self.cfg.model.num_answers
        answers = None if size is None else AnswerVocabulary.build(train.main_answers, size)
        return Vocabularies(*words, answers)

    @property
    def source(self) -> ModelSource:
        """Where the weights of the model come from."""
        return source_of(self.cfg.model)

    @property
    def feature_sizes(self) -> dict[str, int]:
        """Size of the last dimension of each image feature that the model reads, by name."""
        sizes = self.features.sizes if self.features is not None else {}
        return {name: sizes[name] for name in self.cfg.model.image_features}

    def for_model(self, model: DictConfig, ckpt: str) -> "RunContext":
        """The same data and features for another model, such as a part of this one.

        The other model is trained for as long as its own configuration says: an override such as
        trainer.max_epochs=5 holds for the model of the command alone. `ckpt` is "auto" or a path.
        """
        cfg = self.cfg.copy()
        with open_dict(cfg):
            cfg.model = to_plain(model)
            cfg.ckpt = ckpt
            cfg.trainer.max_epochs = cfg.model.epochs
            cfg.trainer.gradient_clip_val = cfg.model.gradient_clip
            cfg.trainer.limit_train_batches = cfg.model.get("epoch_steps")
            cfg.trainer.limit_val_batches = cfg.model.get("val_batches")
        return replace(self, cfg=cfg, is_part=True)

    @cached_property
    def of_training(self) -> "RunContext":
        """The context of the data that the model is trained on: those of model.trained_on.

        Words, answers and identity of the model are then those of these data. Their image features
        come from the network that computes those of the command, so that the model can read both.
        It is this context itself without model.trained_on, and where cfg.ckpt names a file, which
        has its own words and answers.
        """
        settings = to_plain(self.cfg.model.get("trained_on"))
        if not settings or str(self.cfg.get("ckpt", "auto")) != "auto":
            return self
        key = digest(settings)
        if key not in self.other_data:
            self.other_data[key] = instantiate(settings)
        dataset, features = self.other_data[key], self.features
        if dataset is self.dataset:
            return self
        if features is not None:
            features = instantiate(self.cfg.features).build_for_others(
                features, dataset, ["train", "val"], self.store.root / "features"
            )
        return replace(self, dataset=dataset, features=features)

    def trained_as_part(self) -> "RunContext":
        """The context of a model that is trained because another one needs it.

        Noise and beliefs are measured for the model of the command alone. In W&B the part is a run
        of its own; under `wandb agent`, where a process has one run, that run is the command's.
        """
        cfg = without_measurements(self.cfg)
        cfg.logger = loggers_of_part(cfg.logger, str(cfg.model.name))
        # Several processes would wait for each other at the lock of the artifact store.
        with open_dict(cfg):
            cfg.trainer.update({"devices": 1, "num_nodes": 1, "strategy": "auto"})
        return replace(self, cfg=cfg)

    @cached_property
    def parts(self) -> dict[str, "RunContext"]:
        """The context of each part of the model, by the name of the constructor's argument."""
        model = self.cfg.model
        return {
            name: self.for_model(part, model.part_ckpt[name]).of_training
            for name, part in (model.get("parts") or {}).items()
        }

    @property
    def answers_questions(self) -> bool:
        """Whether the model, or a part of it, is a VQA model."""
        modules = [get_object(part.cfg.model.module._target_) for part in self.models()]
        # HFGenerative.load is a method of its class.
        return any(hasattr(getattr(module, "__self__", module), "answer") for module in modules)

    @cached_property
    def measuring_models(self) -> dict[str, "RunContext"]:
        """The context of each trained model that callbacks or judges use, by its name there.

        Empty for a command without a VQA model, which the callbacks ignore.
        """
        measuring_models = self.cfg.get("measuring_models")
        if not measuring_models or not self.answers_questions:
            return {}
        ckpts = measuring_models.get("part_ckpt") or {}
        return {
            name: self.for_model(part, ckpts.get(name, "auto")).of_training
            for name, part in measuring_models.parts.items()
        }

    def models(self) -> Iterator["RunContext"]:
        """The contexts of the model and of its parts at any depth, each of its training."""
        yield self.of_training
        for part in self.parts.values():
            yield from part.models()

    def all_models(self) -> Iterator["RunContext"]:
        """The contexts of all models of the command, also of those that callbacks or judges use."""
        for one in (self, *self.measuring_models.values()):
            yield from one.models()

    @cached_property
    def wanted_features(self) -> list[str]:
        """Image features that the model and its parts read, such as "grid"; no repetitions."""
        names = (name for context in self.models() for name in context.cfg.model.image_features)
        return list(dict.fromkeys(names))

    def source_identity(self) -> Any:
        """The identity of the weights that cfg.ckpt names: released, trained or a file."""
        ckpt = str(self.cfg.ckpt)
        if self.released is not None:
            return {"released": self.released.digest}
        if ckpt == "auto" or isinstance(self.source, Pretrained):
            return self.model_identity
        return {"checkpoint": content_digest(ckpt) or ckpt}

    @cached_property
    def released(self) -> Released | None:
        """The released weights of this part; None unless cfg.pretrained is set and they fit.

        Only parts use released weights. A part in the artifact store comes first.
        """
        cfg = self.cfg
        if not self.is_part:
            return None
        if not cfg.get("pretrained") or str(cfg.ckpt) != "auto" or self.source.refusal:
            return None
        if cfg.model.name not in catalogue():
            return None
        if self.wanted_features and not hasattr(instantiate(cfg.features), "identity"):
            return None  # the released weights belong to features that are trained here
        if self.store.fault(self.store_folder) is None:
            return None
        return find(cfg.model.name, self.release_identity(), self.code())

    @property
    def is_trained(self) -> bool:
        """Whether the weights of the model are there; it and `released` need the features."""
        if isinstance(self.source, Pretrained) or str(self.cfg.ckpt) != "auto":
            return True
        return self.released is not None or self.store.fault(self.store_folder) is None

    @property
    def store_folder(self) -> Path:
        """The folder of the trained model in the artifact store; it need not exist."""
        return self.store.folder("models", self.cfg.model.name, self.model_identity)

    def code(self) -> dict[str, int | str]:
        """The versions of the classes that the configuration names, and of the batches."""
        return code_of(to_plain(self.cfg.model), VQADataModule, keys=model_keys)

    def release_identity(self) -> dict[str, Any]:
        """The data and configuration that released weights must match.

        Unlike `model_identity` it leaves out precision and code: the release has one precision,
        and `find` compares the code separately. The seed counts for VQA models alone: they are
        what experiments measure, so that another seed must be another training.
        """
        identity = {k: v for k, v in self.model_identity.items() if k != "code"}
        if not self.answers_questions:
            del identity["seed"]
        identity["trainer"] = {k: v for k, v in identity["trainer"].items() if k != "precision"}
        identity["parts"] = {name: part.release_identity() for name, part in self.parts.items()}
        if self.wanted_features:
            identity["features"] = instantiate(self.cfg.features).identity(self.dataset)
        return identity

    def datamodule(self, vocabularies: Vocabularies, module: nn.Module) -> VQADataModule:
        """Batches of all splits for a module, which determines how answers and layouts are encoded.

        The vocabularies are those of the training split or of a checkpoint.
        """
        cfg = self.cfg
        answers = getattr(module, "answers", None) or vocabularies.answers
        closed = answers is not None
        answering = module.answerer if isinstance(module, DualModule) else module
        network = getattr(answering, "network", None)  # which may learn from layouts
        return VQADataModule(
            dataset=self.dataset,
            features=self.features,
            question_vocabulary=vocabularies.question_vocabulary,
            answer_words=vocabularies.answer_words,
            answer_vocabulary=answers,
            # With a closed answer set, batches carry the accuracy of each of its answers, and
            # training leaves out questions whose main answer is not in it, unless the module
            # learns from them too.
            contents=BatchContents(
                image_features=tuple(self.wanted_features),
                soft_targets=closed,
                answer_counts=closed and getattr(module, "learns_counts", False),
                encode_layouts=getattr(network, "encode_layouts", None),
            ),
            batching=BatchSettings(
                batch_size=cfg.model.batch_size,
                length_window=cfg.model.get("length_window", 1),
                max_question_length=cfg.max_question_length,
                drop_unknown_answers=(
                    closed and not getattr(module, "learns_other_answers", False)
                ),
                seed=cfg.seed,
                # An encoder then computes each image once per epoch, not once per question.
                group_by_image=getattr(module, "image_encoder", None) is not None,
                num_workers=cfg.num_workers,
            ),
            augmentation=instantiate(cfg.model.augment) if cfg.model.get("augment") else None,
        )

    @cached_property
    def model_identity(self) -> dict[str, Any]:
        """Everything that determines the trained weights: the key in the artifact store.

        It consists of data, settings, seed, the versions of the code (`code`), and for each part
        its own identity or the digest of its checkpoint.
        """
        cfg, model = self.cfg, to_plain(self.cfg.model)
        settings = result_settings(model, model_keys)
        if isinstance(self.source, Pretrained):
            shown = model["module"].get("num_examples")  # of the training split
            drawn = {"examples": [self.dataset.cache_key(), cfg.seed]} if shown else {}
            return {"model": settings, "code": code_of(model, keys=model_keys), **drawn}
        neutral = marked(Trainer, NO_EFFECT)
        trainer = {
            key: value  # null is Lightning's own default
            for key, value in to_plain(cfg.trainer).items()
            if key not in neutral and value is not None
        }
        return {
            "data": self.dataset.cache_key(),
            "splits": [self.dataset.stages["train"], self.dataset.stages["val"]],
            "features": self.features.cache_key()
            if self.features and self.wanted_features
            else None,
            "model": settings,
            "parts": {name: part.source_identity() for name, part in self.parts.items()},
            "code": self.code(),
            "trainer": trainer,
            "seed": cfg.seed,
            "max_question_length": cfg.max_question_length,
            "min_word_count": cfg.min_word_count,
        }


def without_measurements(cfg: DictConfig) -> DictConfig:
    """A copy of a configuration without the callbacks that measure a model, and their models."""
    cfg = cfg.copy()
    for name, node in (cfg.callbacks or {}).items():
        target = get_object(node._target_) if node else None
        if isinstance(target, type) and issubclass(target, MeasuringCallback):
            cfg.callbacks[name] = None
    if "measuring_models" in cfg:
        cfg.measuring_models = None
    return cfg
