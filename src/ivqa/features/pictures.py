"""Features of pictures that are in no split, such as disturbed ones."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from PIL import Image
from torch import Tensor

Network = Callable[[Tensor], Mapping[str, Tensor]]
"""Images (B, 3, H, W), RGB in [0, 1] -> features by name, each with B rows."""


def resized(picture: Image.Image, size: int) -> Tensor:
    """An RGB picture as uint8 (3, size, size), its aspect ratio given up as in the VQA models."""
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


class PictureFeatures:
    """The network behind a feature store, for any pictures.

    make_network: called with the device when the first picture comes. image_size: pixels a side.
    """

    def __init__(
        self, make_network: Callable[[str], Network], image_size: int, batch_size: int
    ) -> None:
        self.make_network, self.image_size = make_network, image_size
        self.batch_size = batch_size
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def extract(self, pictures: Sequence[Image.Image]) -> dict[str, Tensor]:
        """float32 features of M >= 1 RGB pictures, by name, rounded as the store rounds them."""
        parts: list[Mapping[str, Tensor]] = []
        with torch.inference_mode():
            for start in range(0, len(pictures), self.batch_size):
                chosen = pictures[start : start + self.batch_size]
                batch = torch.stack([resized(picture, self.image_size) for picture in chosen])
                parts.append(self._network(batch.to(self.device).float() / 255))
        return {
            name: torch.cat([part[name] for part in parts]).half().float().cpu().clone()
            for name in parts[0]
        }

    @cached_property
    def _network(self) -> Network:
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            return self.make_network(self.device)
