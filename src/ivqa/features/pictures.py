"""Features of pictures outside the splits, such as disturbed images."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from PIL import Image
from torch import Tensor

Network = Callable[[Tensor], Mapping[str, Tensor]]
"""Takes RGB images (B, 3, H, W) in [0, 1]; returns features by name, each with B rows."""


def resized(picture: Image.Image, size: int) -> Tensor:
    """Resizes a picture to a square, without keeping its aspect ratio.

    Args:
        picture: An RGB picture.
        size: Pixels of a side.

    Returns:
        Pixels (3, size, size), uint8.
    """
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


class PictureFeatures:
    """Computes features of any pictures with the network of a feature store.

    Args:
        make_network: Builds the network for a device ("cpu" or "cuda"). It is called with the
            first pictures.
        image_size: Pixels of a side that the network takes.
        batch_size: Pictures computed at once.
    """

    def __init__(
        self, make_network: Callable[[str], Network], image_size: int, batch_size: int
    ) -> None:
        self.make_network, self.image_size = make_network, image_size
        self.batch_size = batch_size
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def extract(self, pictures: Sequence[Image.Image]) -> dict[str, Tensor]:
        """Computes the features of pictures.

        Args:
            pictures: M >= 1 RGB pictures of any size.

        Returns:
            float32 features by name, each with M rows, rounded to float16 as in the store.
        """
        parts: list[Mapping[str, Tensor]] = []
        network = self._network  # built outside of inference mode: it may be trained first
        with torch.inference_mode():
            for start in range(0, len(pictures), self.batch_size):
                chosen = pictures[start : start + self.batch_size]
                batch = torch.stack([resized(picture, self.image_size) for picture in chosen])
                parts.append(network(batch.to(self.device).float() / 255))
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
