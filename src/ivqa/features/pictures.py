"""Features of pictures outside the splits, such as disturbed images."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor


@dataclass(frozen=True)
class Resize:
    """Resizes pictures to a square that shows all of the picture, whatever its aspect ratio.

    A crop would keep the aspect ratio, but questions are also about what is at the border.

    Args:
        size: Pixels of a side.
        resampling: Interpolation of Pillow.
    """

    version: ClassVar[int] = 1

    size: int
    resampling: Image.Resampling = Image.Resampling.BILINEAR

    def __call__(self, picture: Image.Image) -> Tensor:
        """Resizes an RGB picture to pixels (3, size, size), uint8."""
        if picture.size != (self.size, self.size):
            picture = picture.resize((self.size, self.size), self.resampling)
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


@dataclass(frozen=True)
class Network:
    """A network on its device, and the function that prepares its input.

    Args:
        compute: Takes a batch of prepared pictures on the device of the network; returns features
            by name, each with B rows.
        prepare: Takes an RGB picture; returns its row of the batch, all of one shape. It is called
            in several threads or processes.
    """

    compute: Callable[[Tensor], Mapping[str, Tensor]]
    prepare: Callable[[Image.Image], Tensor]


class PictureFeatures:
    """Computes features of any pictures with the network of a feature store.

    Args:
        make_network: Builds the network for a device ("cpu" or "cuda"). It is called with the
            first pictures.
    """

    def __init__(self, make_network: Callable[[str], Network], batch_size: int) -> None:
        self.make_network, self.batch_size = make_network, batch_size
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def extract(self, pictures: Sequence[Image.Image]) -> dict[str, Tensor]:
        """Computes float32 features of M >= 1 RGB pictures of any size, by name, with M rows each.

        They are rounded to float16 as in the store.
        """
        parts: list[Mapping[str, Tensor]] = []
        network = self._network  # built outside of inference mode: it may be trained first
        with torch.inference_mode():
            for start in range(0, len(pictures), self.batch_size):
                chosen = pictures[start : start + self.batch_size]
                batch = torch.stack([network.prepare(picture) for picture in chosen])
                parts.append(network.compute(batch.to(self.device)))
        # Rounding to float16 makes an undisturbed image equal to its stored features.
        return {
            name: torch.cat([part[name] for part in parts]).half().float().cpu().clone()
            for name in parts[0]
        }

    @cached_property
    def _network(self) -> Network:
        # Building the network must not change the random numbers of the caller.
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            return self.make_network(self.device)
