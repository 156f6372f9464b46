"""features=resnet152 and kin: torchvision networks pretrained on ImageNet, for photographs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import torchvision
from rich.console import Console
from torch import Tensor, nn

from ivqa.code_digest import code_digest
from ivqa.data.dataset import VQADataset
from ivqa.errors import UserError
from ivqa.features.extraction import Network, build_store
from ivqa.features.store import FeatureStore
from ivqa.files import content_digest, digest
from ivqa.ranges import Count, CountOrZero, ImageSize, Seed, one_of
from ivqa.weights import check_finite, read_weights

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FC7_SIZE = 224  # VGG's fully connected layers read 7 x 7 maps of a picture of this size

Architecture = Annotated[str, one_of(torchvision.models.list_models, "a model of torchvision")]


class ResNetFeatures(nn.Module):
    """grid: res5c after its ReLU, (B, 14 * 14, 2048) of 448 px; pooled: its mean, (B, 2048)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*list(network.children())[:-2])

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Features of normalised images (B, 3, H, W)."""
        grid = self.body(images).flatten(2).transpose(1, 2)  # (B, L, 2048)
        return {"grid": grid, "pooled": grid.mean(dim=1)}


class VGGFeatures(nn.Module):
    """grid: pool5, (B, 14 * 14, 512) of 448 px; pooled: fc7 after its ReLU, (B, 4096)."""

    def __init__(self, network: torchvision.models.VGG) -> None:
        super().__init__()
        self.body = network.features
        self.fc7 = nn.Sequential(*list(network.classifier.children())[:5])

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Features of normalised images (B, 3, H, W)."""
        grid = self.body(images).flatten(2).transpose(1, 2)  # (B, L, 512)
        small = nn.functional.interpolate(
            images, size=(_FC7_SIZE, _FC7_SIZE), mode="bilinear", antialias=True
        )
        return {"grid": grid, "pooled": self.fc7(self.body(small).flatten(1))}


@dataclass(frozen=True, kw_only=True)
class BackboneFeatures:
    """Grid and pooled features of a torchvision network.

    arch: torchvision's name. head: the class above that fits it. weights: "IMAGENET1K_V1" and
    other names of torchvision's are downloaded; a path is a state_dict saved with torch.save;
    "random" is an untrained network of this seed, for trials only. image_size: pixels a side;
    448 gives 14 x 14 positions.
    """

    arch: Architecture = "resnet152"
    head: Callable[..., nn.Module] = ResNetFeatures
    weights: str = "IMAGENET1K_V1"
    image_size: ImageSize = 448
    batch_size: Count = 16
    num_workers: CountOrZero = 0
    seed: Seed = 0

    def build(self, dataset: VQADataset, splits: Sequence[str], root: Path) -> FeatureStore:
        """Features of the given splits: found under `root`, or computed there.

        Raises UserError where the weights cannot be had, saying what to do about it.
        """
        key = self._key(dataset)
        return build_store(
            dataset,
            splits,
            root / f"{self.arch}-{key}",
            key,
            self._extractor,
            image_size=self.image_size,
            batch_size=self.batch_size,
            num_workers=self.num_workers,
        )

    def _extractor(self, device: str) -> Network:
        network = self.head(self.network()).eval().to(device)
        mean, std = (torch.tensor(value, device=device).view(3, 1, 1) for value in (_MEAN, _STD))
        return lambda images: network((images - mean) / std)

    def network(self) -> nn.Module:
        """The torchvision network with its weights."""
        if self.weights == "random":
            Console().print(
                f"[bold]{self.arch} with random weights: features of a trial only[/]",
                soft_wrap=True,
            )
            with torch.random.fork_rng(range(torch.cuda.device_count())):
                torch.manual_seed(self.seed)
                return torchvision.models.get_model(self.arch, weights=None)
        choices = torchvision.models.get_model_weights(self.arch)
        if self.weights in choices.__members__:
            return self._downloaded()
        file = Path(self.weights)
        if not file.is_file():
            raise UserError(
                f"features.weights={self.weights} is neither a file nor weights of torchvision's "
                f"{self.arch} ({', '.join(choices.__members__)}); save a state_dict there"
            )
        network = torchvision.models.get_model(self.arch, weights=None)
        try:
            state = read_weights(file)
            check_finite(state, file)
            network.load_state_dict(state)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"{file} is no state_dict of {self.arch} ({reason})") from error
        return network

    def _downloaded(self) -> nn.Module:
        try:
            return torchvision.models.get_model(self.arch, weights=self.weights)
        except Exception as error:
            raise UserError(
                f"the weights {self.weights} of {self.arch} cannot be downloaded ({error}); save "
                "its state_dict on a machine with network and pass features.weights=FILE, or "
                "choose features=concepts, which trains on the data itself"
            ) from error

    def _key(self, dataset: VQADataset) -> str:
        settings = {
            "arch": self.arch,
            "head": getattr(self.head, "__qualname__", repr(self.head)),
            "weights": self.weights,
            "image_size": self.image_size,
            "seed": self.seed,
            "data": dataset.fingerprint(),
            "code": code_digest([type(self), self.head]),
        }
        if Path(self.weights).is_file():
            settings["weights"] = content_digest(self.weights)
        return digest(settings)
