"""features=trainable: an image network that each model trains end to end, from pixels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.dataset import VQADataset
from ivqa.errors import UserError, reason_of
from ivqa.features.pictures import Resize
from ivqa.features.pixel_store import PixelStore, store_pixels
from ivqa.features.positions import FeatureComponent
from ivqa.features.pretrained.image_networks import CompactNetwork
from ivqa.ranges import ImageSize, Positive
from ivqa.store.digests import digest
from ivqa.store.identity import identity_of
from ivqa.store.versions import code_version
from ivqa.trained import ImageEncoder, network_settings

_NAMES = ("grid", "pooled", "concepts")


@dataclass(frozen=True, kw_only=True)
class TrainableFeatures(FeatureComponent):
    """Features of a network that is trained with the model that reads them.

    Images are decoded once and stored as pixels. Every model, and every part of a policy, owns and
    trains a network of its own; its weights are in the checkpoint of the model.

    Args:
        network: Called with `names`, the features that a model reads, and with image_size; returns
            a module that takes RGB images (M, 3, image_size, image_size) in [0, 1] and returns
            these features by name.
        image_size: Pixels of a side.
        learning_rate_scale: Learning rate of the network as a multiple of the model's; below 1 to
            change pretrained weights slowly.
    """

    version: ClassVar[int] = 1

    network: Callable[..., nn.Module] = CompactNetwork
    image_size: ImageSize = 96
    learning_rate_scale: Positive = 1.0

    @override
    def build(self, dataset: VQADataset, splits: Sequence[str], root: Path) -> PixelStore:
        shapes = self._shapes()
        stored = {
            "image_size": self.image_size,
            "data": dataset.cache_key(),
            "code": code_version([Resize]),
        }
        directory = root / f"pixels-{digest(stored)}"
        return PixelStore(
            directory,
            store_pixels(dataset, splits, directory, self.image_size),
            image_size=self.image_size,
            sizes={name: shape[-1] for name, shape in shapes.items()},
            make_encoder=self.encoder,
            key=self.cache_key(dataset),
        )

    def encoder(self, names: Sequence[str]) -> ImageEncoder:
        """Builds an encoder of the features `names`, untrained, for one module to own.

        Raises:
            UserError: The network cannot be built.
        """
        network = self.network(names=tuple(names), image_size=self.image_size)
        return ImageEncoder(network, self._described(), self.learning_rate_scale)

    @override
    def places(self) -> Mapping[str, int | None]:
        return {
            name: shape[1] if len(shape) == 3 else None for name, shape in self._shapes().items()
        }

    @override
    def cache_key(self, dataset: VQADataset) -> str:
        return digest(self.identity(dataset))

    def identity(self, dataset: VQADataset) -> dict[str, Any]:
        """The data, settings and code that determine pixels and encoder, as JSON values."""
        return {
            "network": identity_of(self.network)["settings"],
            "image_size": self.image_size,
            "learning_rate_scale": self.learning_rate_scale,
            "data": dataset.cache_key(),
            "code": code_version([type(self), self.network, ImageEncoder]),
        }

    def _described(self) -> dict[str, Any]:
        """What a checkpoint stores: the network without the weights that it started from."""
        settings = network_settings(self.network)
        settings["arguments"].pop("weights", None)
        return {**settings, "image_size": self.image_size}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all features of one image, by name."""
        build: Any = self.network
        if "weights" in network_settings(build)["arguments"]:
            build = partial(build, weights="random")  # nothing is downloaded for the shapes
        features: Mapping[str, Tensor]
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            network = build(names=_NAMES, image_size=self.image_size).eval()
            try:
                features = network(torch.zeros(1, 3, self.image_size, self.image_size))
            except RuntimeError as error:
                raise UserError(
                    f"features.network takes no images of {self.image_size} x {self.image_size} "
                    f"pixels ({reason_of(error)}); choose another features.image_size"
                ) from error
        return {name: tuple(value.shape) for name, value in features.items()}
