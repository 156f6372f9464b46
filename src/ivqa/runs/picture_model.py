"""Trained models that read pictures outside their data set."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra.utils import get_object
from numpy.typing import NDArray
from omegaconf import DictConfig
from PIL import Image
from torch import Tensor

from ivqa.config.model_sources import Pretrained, Untrained, source_of
from ivqa.data.batches.batch import ImageBatch, PixelSource
from ivqa.data.given_pictures import NumberedPictures
from ivqa.errors import UserError
from ivqa.features.decoding import asked_images
from ivqa.features.unlike import number_unlike
from ivqa.generators.module import GeneratorModule
from ivqa.report.model_names import title_in
from ivqa.runs.context import RunContext
from ivqa.runs.preparation import with_features
from ivqa.runs.trained_models import obtain_module

_COMPARED = 500  # training pictures, and given ones, whose features are compared
_AT_ONCE = 50  # of them in memory, where a grid may have two megabytes
_DESCRIPTORS = ("grid", "pooled", "concepts")  # the first one that there is tells pictures apart


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


def obtain_picture_model(context: RunContext, *, train: bool = True) -> PictureModel:
    """Loads the model of a context without features, or trains it; it can read any picture.

    The released weights are used as for the parts of a policy. The features of the training
    splits are computed only if something must be trained.

    Raises:
        UserError: The checkpoint or the features do not fit the configuration; or something must
            be trained, and `train` is False.
    """
    context = with_features(replace(context, is_part=True), [])
    if untrained := [one for one in context.models() if not one.is_trained]:
        if not train:
            name, store = untrained[0].cfg.model.name, context.store.root
            raise UserError(
                f"{name} is not trained for these data and settings in {store}; train it first, "
                f"with python train.py model={context.cfg.model.name}"
            )
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


def unlike_training(model: PictureModel, pictures: PixelSource, ids: Sequence[int]) -> str:
    """Says how many pictures are unlike those that a model was trained on; "" if none is.

    See `number_unlike`; at most 500 pictures are compared with 500 training pictures. A model
    that reads no image features, or whose training data are unknown, is not measured.
    """
    context, encoder = model.context.of_training, getattr(model.questioner, "image_encoder", None)
    features = context.features
    if features is None or not context.wanted_features or not _trained_on(context, model):
        return ""
    offered = features.sizes if encoder is None else context.wanted_features
    name = next(one for one in _DESCRIPTORS if one in offered)

    def descriptor(values: Mapping[str, Tensor]) -> Tensor:
        rows = torch.arange(len(next(iter(values.values()))))
        device = "cpu" if encoder is None else model.questioner.device
        fields: dict[str, Any] = dict(values)
        batch = ImageBatch(ids=rows, index=rows, **fields).to(device).encoded(encoder)
        value = batch.feature(name).cpu()
        return value.mean(dim=1) if value.dim() == 3 else value  # (M, d)

    def extracted(source: PixelSource, image_ids: Sequence[int]) -> Tensor:
        found = [features.extract([source.open(one)], [name]) for one in image_ids]
        return torch.cat([descriptor(one) for one in found])

    if context.training is not None:
        training = context.training.weights()[name]
    else:
        split = context.dataset.split("train")
        images = asked_images(split)
        chosen = compared_images(images.ids)
        try:
            parts = np.array_split(features.rows(split.name, chosen), -(-len(chosen) // _AT_ONCE))
            stored = [features.gather(split.name, part, [name]) for part in parts]
            training = torch.cat([descriptor(one) for one in stored])
        except UserError:  # released weights come without the features of their training
            training = extracted(images, chosen.tolist())
    given = ids[:: -(-len(ids) // _COMPARED)]
    count = number_unlike(training, extracted(pictures, given))
    if not count:
        return ""
    some = f"All {count:,}" if count == len(given) else f"{count:,} of {len(given):,}"
    who = "The picture is" if len(given) == 1 else f"{some} pictures are"
    return (
        f"{who} unlike the training pictures of {title_in(context.cfg.model)} "
        f"({context.dataset.title}), by the image features: what it says there is guesswork."
    )


def compared_images(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The training pictures that others are compared with."""
    return np.random.default_rng(0).permutation(ids)[:_COMPARED]


def training_answers(context: RunContext) -> Counter[str]:
    """How often each main answer occurs in the training split, the most frequent one first."""
    if context.training is not None:
        return Counter(context.training.component()["answers"])
    return Counter(dict(Counter(context.dataset.split("train").main_answers).most_common()))


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


def _trained_on(context: RunContext, model: PictureModel) -> bool:
    """Whether a model was trained on the data of a context, as far as its words tell."""
    if str(context.cfg.ckpt) == "auto":
        return not isinstance(context.source, Pretrained)
    own = getattr(model.questioner, "question_vocabulary", None)
    return own is not None and own.words == context.vocabularies.question_vocabulary.words
