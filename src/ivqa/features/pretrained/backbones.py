"""features=resnet152 and others: torchvision networks pretrained on ImageNet, for photographs.

The layers are those of the VQA papers: res5c of ResNet at 448 px (Fukui et al., MCB, EMNLP 2016;
Kim et al., MLB, ICLR 2017), and pool5 and fc7 of VGG (Lu et al., HieCoAtt, NeurIPS 2016).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import torchvision
from PIL import Image
from torch import Tensor, nn
from typing_extensions import override

from ivqa.errors import UserError, reason_of
from ivqa.features.pictures import Resize
from ivqa.features.pretrained.base import Normalised, PretrainedFeatures, random_weights
from ivqa.ranges import ImageSize, Seed, Weights, one_of
from ivqa.store.weights import check_finite, read_weights

# ImageNet's mean and standard deviation by channel, with which torchvision's weights were trained.
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FC7_SIZE = 224  # pixels; VGG's fully connected layers need the 7 x 7 map of such an image

Architecture = Annotated[str, one_of(torchvision.models.list_models, "a model of torchvision")]


class ResNetFeatures(nn.Module):
    """The last convolutional layer of torchvision's ResNet (res5c after its ReLU), and its mean."""

    version: ClassVar[int] = 1

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*list(network.children())[:-2])

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Computes "grid" (B, L, 2048) and "pooled" (B, 2048) of normalised images (B, 3, H, W).

        L is 14 * 14 for 448 px.
        """
        grid = self.body(images).flatten(2).transpose(1, 2)  # (B, L, 2048)
        return {"grid": grid, "pooled": grid.mean(dim=1)}


class VGGFeatures(nn.Module):
    """The last pooling layer of torchvision's VGG network (pool5), and fc7 after its ReLU."""

    version: ClassVar[int] = 1

    def __init__(self, network: torchvision.models.VGG) -> None:
        super().__init__()
        self.body = network.features
        self.fc7 = nn.Sequential(*list(network.classifier.children())[:5])

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Computes "grid" (B, L, 512) and "pooled" (B, 4096) of normalised images (B, 3, H, W).

        L is 14 * 14 for 448 px. "pooled" is computed from the images at 224 px.
        """
        grid = self.body(images).flatten(2).transpose(1, 2)  # (B, L, 512)
        small = nn.functional.interpolate(
            images, size=(_FC7_SIZE, _FC7_SIZE), mode="bilinear", antialias=True
        )
        return {"grid": grid, "pooled": self.fc7(self.body(small).flatten(1))}


@dataclass(frozen=True, kw_only=True)
class BackboneFeatures(PretrainedFeatures):
    """Grid and pooled features of a torchvision network.

    Args:
        arch: Name of the network in torchvision.
        head: Takes the network and returns a module that computes the features: `ResNetFeatures`,
            `VGGFeatures` or a class of your own.
        weights: A name of torchvision's weights, which are downloaded; or the path of a
            state_dict saved with torch.save; or "random" for an untrained network, for trials.
        image_size: Pixels of a side. 448 gives 14 x 14 positions.
        seed: Seed of random weights.
    """

    version: ClassVar[int] = 1

    arch: Architecture = "resnet152"
    head: Callable[..., nn.Module] = ResNetFeatures
    weights: Weights = "IMAGENET1K_V1"
    image_size: ImageSize = 448
    seed: Seed = 0

    @property
    @override
    def name(self) -> str:
        return self.arch

    @override
    def places(self) -> Mapping[str, int | None] | None:
        if self.head not in (ResNetFeatures, VGGFeatures):
            return None
        # Both grids have stride 32; ResNet pads an image whose size is no multiple, VGG crops it.
        side = self.image_size // 32
        if self.head is ResNetFeatures:
            side = -(-self.image_size // 32)
        return {"grid": side**2, "pooled": None}

    @override
    def load(self) -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
        return Normalised(self.head(self.network()), _MEAN, _STD), Resize(self.image_size)

    def network(self) -> nn.Module:
        """Builds the whole torchvision network with its weights.

        Raises:
            UserError: The weights cannot be downloaded, or the file does not hold them.
        """
        if self.weights == "random":
            with random_weights(self.arch, self.seed):
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
            reason = reason_of(error)
            raise UserError(f"{file} is not a state_dict of {self.arch} ({reason})") from error
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
