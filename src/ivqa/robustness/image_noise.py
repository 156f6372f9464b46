"""Noise on images; see `ivqa.robustness.noise`.

The level is the strength of the noise only: an image has the same noise at all levels, stronger at
higher ones, and independent of the other images. [ROB] names image noise as future work.
"""

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from scipy.signal import oaconvolve
from typing_extensions import override

from ivqa.data.rgb import to_rgb
from ivqa.ranges import AtLeastOne, Count, Positive, Seed

Quality = Annotated[int, Interval(ge=1, le=95)]  # Pillow's range for JPEG


class ImageNoise(ABC):
    """Disturbs the image and leaves the question unchanged.

    Attributes:
        levels: Number of levels.
    """

    levels: int

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Returns the questions unchanged, once for each level."""
        return [list(questions)] * self.levels

    @abstractmethod
    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """Disturbs an image; see `DisturbsImages`."""


@dataclass(frozen=True)
class GaussianNoise(ImageNoise):
    """Adds independent normal noise to every channel of every pixel.

    Args:
        step: Standard deviation at level 1, where black is 0 and white is 1; it is proportional to
            the level.
    """

    levels: Count = 7
    step: Positive = 0.04
    seed: Seed = 0

    @override
    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        pixels = np.asarray(image, dtype=np.float32)
        # The noise is the same at all levels and only its factor grows, see the module's docstring.
        noise = _generator(self.seed, image_id).standard_normal(pixels.shape, dtype=np.float32)
        disturbed = pixels + 255 * self.step * level * noise
        return Image.fromarray(disturbed.round().clip(0, 255).astype(np.uint8))


@dataclass(frozen=True)
class Blur(ImageNoise):
    """Blurs the image with a Gaussian kernel.

    Args:
        step: Standard deviation of the kernel at level 1, as a share of the shorter side; it is
            proportional to the level.
    """

    levels: Count = 7
    step: Positive = 0.005

    @override
    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        return image.filter(ImageFilter.GaussianBlur(self.step * level * min(image.size)))


@dataclass(frozen=True)
class MotionBlur(ImageNoise):
    """Blurs the image along a line, as a moving camera does.

    The direction is random, and the same at all levels.

    Args:
        step: Length of the line at level 1, as a share of the shorter side; it is proportional to
            the level.
    """

    levels: Count = 7
    step: Positive = 0.02
    seed: Seed = 0

    @override
    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        length = self.step * level * min(image.size)
        angle = np.pi * _generator(self.seed, image_id).random()
        kernel = motion_kernel(length, angle)
        radius = len(kernel) // 2
        # Pixels beyond the border repeat those at the border.
        around = ((radius, radius), (radius, radius), (0, 0))
        padded = np.pad(np.asarray(image, dtype=np.float64), around, mode="edge")
        blurred = oaconvolve(padded, kernel[:, :, None], mode="valid", axes=(0, 1))
        return Image.fromarray(blurred.round().clip(0, 255).astype(np.uint8))


def motion_kernel(length: float, angle: float) -> NDArray[np.float64]:
    """The kernel of a motion blur: equal weights along a line through its centre.

    Args:
        length: Length of the line in pixels, >= 0.
        angle: Angle to the horizontal axis, in radians.

    Returns:
        (2 r + 1, 2 r + 1), where r is half the length, rounded up; its sum is 1.
    """
    radius = int(np.ceil(length / 2))
    kernel = np.zeros((2 * radius + 1, 2 * radius + 1))
    # Many points of the line, each shared among the four pixels around it.
    along = np.linspace(-length / 2, length / 2, 8 * (2 * radius + 1) + 1)
    rows, columns = radius - along * np.sin(angle), radius + along * np.cos(angle)
    for row, column in zip(rows, columns, strict=True):
        top, left = int(np.floor(row)), int(np.floor(column))
        down, right = row - top, column - left
        for y, x, weight in (
            (top, left, (1 - down) * (1 - right)),
            (top, left + 1, (1 - down) * right),
            (top + 1, left, down * (1 - right)),
            (top + 1, left + 1, down * right),
        ):
            if weight > 0:
                kernel[y, x] += weight
    return kernel / kernel.sum()


@dataclass(frozen=True)
class SaltAndPepper(ImageNoise):
    """Turns random pixels white or black, half of them each.

    Args:
        step: Share of the pixels at level 1; it is proportional to the level, up to 1.
    """

    levels: Count = 7
    step: Positive = 0.02
    seed: Seed = 0

    @override
    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        chosen, white = _generator(self.seed, image_id).random((2, image.height, image.width))
        pixels = np.array(image)
        hit = chosen < self.step * level
        pixels[hit] = np.where(white[hit] < 0.5, 0, 255)[:, None]
        return Image.fromarray(pixels)


@dataclass(frozen=True)
class JPEGCompression(ImageNoise):
    """Compresses the image with JPEG.

    Args:
        qualities: JPEG qualities of levels 1, 2, ..., from 95 (best) to 1 (worst).
    """

    qualities: Annotated[Sequence[Quality], AtLeastOne] = (40, 25, 15, 10, 6, 3, 1)

    @property
    def levels(self) -> int:  # type: ignore[override]
        """The number of qualities."""
        return len(self.qualities)

    @override
    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        data = io.BytesIO()
        image.save(data, format="JPEG", quality=self.qualities[level - 1])
        with Image.open(data) as compressed:
            return to_rgb(compressed)


@dataclass(frozen=True)
class Occlusion(ImageNoise):
    """Hides a part of the image with a grey rectangle of the image's aspect ratio.

    Args:
        step: Hidden share of the area at level 1; it is proportional to the level, up to 1.
    """

    levels: Count = 7
    step: Positive = 0.08
    seed: Seed = 0

    @override
    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        # The share of each side is the root of the share of the area.
        share = min(self.step * level, 1.0) ** 0.5
        width, height = (round(side * share) for side in image.size)
        # The relative position, 0 at one edge and 1 at the other, is the same at all levels.
        across, down = _generator(self.seed, image_id).random(2)
        left = round(across * (image.width - width))
        top = round(down * (image.height - height))
        hidden = image.copy()
        hidden.paste((128, 128, 128), (left, top, left + width, top + height))
        return hidden


def _generator(seed: int, image_id: int) -> np.random.Generator:
    # Seeded by the image, so that its noise does not depend on the order of the calls.
    return np.random.default_rng([seed, image_id])
