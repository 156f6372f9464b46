"""What the features of all pretrained networks share: settings, key, precision and store."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import torch
from PIL import Image
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.dataset import VQADataset
from ivqa.errors import UserError
from ivqa.features.extraction import build_store
from ivqa.features.pictures import Network
from ivqa.features.positions import FeatureComponent
from ivqa.features.store import FeatureStore
from ivqa.ranges import NO_EFFECT, Count, CountOrZero
from ivqa.store.digests import digest
from ivqa.store.identity import identity_of
from ivqa.terminal import terminal

Dtype = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True, kw_only=True)
class PretrainedFeatures(FeatureComponent):
    """Features of a network that is not trained here. Subclasses load the network.

    Args:
        batch_size: Images computed at once.
        num_workers: Processes that read images; 0 reads them in threads of this process.
        dtype: Precision of matrix products and convolutions. "auto" is float32 on a CPU, and
            bfloat16 on a GPU that has it. Features are stored in float16 in any case.
    """

    version: ClassVar[int] = 1

    batch_size: Annotated[Count, NO_EFFECT] = 16
    num_workers: Annotated[CountOrZero, NO_EFFECT] = 0
    dtype: Dtype = "auto"

    @property
    @abstractmethod
    def name(self) -> str:
        """The first part of the name of the store's folder."""

    @abstractmethod
    def load(self) -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
        """Loads the network.

        Returns:
            A module that takes a batch of prepared pictures and returns features by name, and the
            function that prepares an RGB picture.

        Raises:
            UserError: The weights cannot be found, downloaded or read.
        """

    @override
    def build(self, dataset: VQADataset, splits: Sequence[str], root: Path) -> FeatureStore:
        key = self.cache_key(dataset)
        return build_store(
            dataset,
            splits,
            root / f"{self.name}-{key}",
            key,
            self.on_device,
            batch_size=self.batch_size,
            num_workers=self.num_workers,
        )

    def on_device(self, device: str) -> Network:
        """Loads the network in evaluation mode onto "cpu" or "cuda", in the precision of `dtype`.

        Raises:
            UserError: The weights cannot be found, downloaded or read.
        """
        module, prepare = self.load()
        layout = _layout(module)
        module = module.eval().to(device).to(memory_format=layout)
        dtype = precision(self.dtype, device)

        def compute(images: Tensor) -> Mapping[str, Tensor]:
            images = images.contiguous(memory_format=layout)
            # Autocast leaves sums and normalisations in float32.
            with torch.autocast(device, dtype, enabled=dtype is not torch.float32):
                features = module(images)
            return {name: value.float() for name, value in features.items()}

        return Network(compute, prepare)

    @override
    def cache_key(self, dataset: VQADataset) -> str:
        return digest([identity_of(self), dataset.cache_key()])


class Normalised(nn.Module):
    """Scales pixels to a mean and standard deviation of each channel and computes their features.

    Mean and standard deviation are those of pixels in [0, 1].
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1))

    def forward(self, pixels: Tensor) -> Mapping[str, Tensor]:
        """Computes features of uint8 pixels (B, 3, H, W)."""
        return self.network((pixels.float() / 255 - self.mean) / self.std)


def precision(dtype: Dtype, device: str) -> torch.dtype:
    """The type in which a device ("cpu" or "cuda") multiplies matrices.

    "auto" is bfloat16 on a GPU that has it, else float32.

    Example:
        >>> precision("auto", "cpu"), precision("float16", "cuda")
        (torch.float32, torch.float16)
    """
    if dtype != "auto":
        return getattr(torch, dtype)
    able = device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if able else torch.float32


def optional_package(module: str, package: str, what: str) -> Any:
    """Imports a module of a package that ivqa works without and that `what`, a setting, needs.

    Raises:
        UserError: The package is not installed; the message says how to install it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise UserError(
            f"{what} needs the package {package}, which is not installed; "
            "run pip install 'ivqa[photos]'"
        ) from None


@contextmanager
def random_weights(arch: str, seed: int) -> Iterator[None]:
    """Says that a network gets random weights, and seeds torch inside of the block alone."""
    what = f"image features: {arch} with random weights, for a trial only"
    terminal().print(what, style="bold", soft_wrap=True)
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def _layout(module: nn.Module) -> torch.memory_format:
    """The layout of images in memory in which a network is fast.

    Channels last is faster for convolutions whose windows overlap. A convolution that cuts an image
    into patches, as in vision transformers, takes four times as long with it.
    """
    convolutions = (part for part in module.modules() if isinstance(part, nn.Conv2d))
    overlap = any(part.kernel_size != part.stride for part in convolutions)
    return torch.channels_last if overlap else torch.contiguous_format
