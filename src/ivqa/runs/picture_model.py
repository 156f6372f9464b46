"""Trained models that read pictures outside their data set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from hydra.utils import get_object
from omegaconf import DictConfig
from PIL import Image

from ivqa.config.model_sources import Pretrained, Untrained, source_of
from ivqa.data.batches.batch import ImageBatch
from ivqa.data.given_pictures import NumberedPictures
from ivqa.errors import UserError
from ivqa.generators.module import GeneratorModule
from ivqa.runs.context import RunContext
from ivqa.runs.preparation import with_features
from ivqa.runs.trained_models import obtain_module


@dataclass(frozen=True)
class PictureModel:
    """A trained model, and the features that it reads."""

    context: RunContext
    module: Any
    checkpoint: Path

    @property
    def questioner(self) -> GeneratorModule:
        """The question generator: the module itself, or the policy that it trains."""
        return getattr(self.module, "questioner", self.module)

    def read(self, picture: Image.Image) -> ImageBatch:
        """Computes the features of a picture; see `image_batch`."""
        return image_batch([self], picture)


def obtain_picture_model(context: RunContext) -> PictureModel:
    """Loads the model of a context without features, or trains it; it can read any picture.

    The released weights are used as for the parts of a policy. The features of the training
    splits are computed only if something must be trained.

    Raises:
        UserError: The checkpoint or the features do not fit the configuration.
    """
    context = with_features(replace(context, is_part=True), [])
    if not all(map(_is_trained, context.models())):
        context = with_features(context, ["train", "val"])
    module, _, checkpoint = obtain_module(context)
    return PictureModel(context, module, checkpoint)


def image_batch(models: Sequence[PictureModel], picture: Image.Image) -> ImageBatch:
    """A batch of an RGB picture, with the features that some models read and its pixels.

    The models have the same features=, such as a generator and a VQA model.
    """
    benches = [model.context for model in models if model.context.features is not None]
    names = list(dict.fromkeys(name for context in benches for name in context.wanted_features))
    features: dict[str, Any] = {}
    if benches and benches[0].features is not None:
        features = benches[0].features.extract([picture], names)
    first = torch.zeros(1, dtype=torch.int64)
    return ImageBatch(ids=first, index=first, source=NumberedPictures({0: picture}), **features)


def asks_questions(model: DictConfig) -> bool:
    """Whether the model of a configuration is a question generator."""
    return _has(model, "sample") and _has(model, "log_likelihood")


def answers_questions(model: DictConfig) -> bool:
    """Whether the model of a configuration is a VQA model."""
    return _has(model, "log_scores")


def check_gives_probabilities(model: DictConfig) -> None:
    """Raises UserError unless a question generator is trained and so has probabilities."""
    if isinstance(source_of(model), Untrained):
        raise UserError(
            f"model={model.name} gives no probabilities p(q | I, a) of questions; choose a trained "
            "generator, such as model=ivqa_attention"
        )


def check_reads_images(context: RunContext) -> None:
    """Raises UserError where a question generator asks the same about every picture."""
    modules = [get_object(part.cfg.model.module._target_) for part in context.models()]
    reads_pixels = any(getattr(module, "reads_pixels", False) for module in modules)
    if not context.wanted_features and not reads_pixels:
        raise UserError(
            f"model={context.cfg.model.name} reads no images, so it asks the same about every "
            "picture; choose a generator with images, such as model=ivqa_vae"
        )


def _has(model: DictConfig, method: str) -> bool:
    target = get_object(model.module._target_)
    return hasattr(getattr(target, "__self__", target), method)  # HFGenerative.load -> its class


def _is_trained(context: RunContext) -> bool:
    cfg = context.cfg
    if (
        isinstance(source_of(cfg.model), Pretrained)
        or str(cfg.ckpt) != "auto"
        or context.released is not None
    ):
        return True
    return context.store.fault(context.store_folder) is None
