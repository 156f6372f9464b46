"""Noise on images, and on questions and images together; see `ivqa.robustness.noise`.

A level says how strong the noise is, not which: a picture's noise at level 2 is that of level 1,
stronger, whatever other pictures are disturbed with it.
"""

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval
from PIL import Image, ImageFilter

from ivqa.errors import UserError
from ivqa.ranges import AtLeastOne, Count, Positive, Seed
from ivqa.robustness.noise import Certified, Checkable, DisturbsImages, Noise

Quality = Annotated[int, Interval(ge=1, le=95)]  # of JPEG, as Pillow has them


class ImageNoise(ABC):
    """Leaves questions as they are and changes the image."""

    levels: int

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """The questions as they are, at every level."""
        return [list(questions)] * self.levels

    @abstractmethod
    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """The RGB image at a level 1..levels, of the same size."""


@dataclass(frozen=True)
class GaussianNoise(ImageNoise):
    """Normal noise on every channel; step: standard deviation at level 1, where white is 1."""

    levels: Count = 7
    step: Positive = 0.04
    seed: Seed = 0

    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """The image plus noise of standard deviation step * level, cut to what pixels can show."""
        pixels = np.asarray(image, dtype=np.float32)
        noise = _generator(self.seed, image_id).standard_normal(pixels.shape, dtype=np.float32)
        disturbed = pixels + 255 * self.step * level * noise
        return Image.fromarray(disturbed.round().clip(0, 255).astype(np.uint8))


@dataclass(frozen=True)
class Blur(ImageNoise):
    """A Gaussian blur; step: its standard deviation at level 1, a share of the shorter side."""

    levels: Count = 7
    step: Positive = 0.005

    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """The blurred image."""
        return image.filter(ImageFilter.GaussianBlur(self.step * level * min(image.size)))


@dataclass(frozen=True)
class JPEGCompression(ImageNoise):
    """The artefacts of JPEG; qualities: of level 1, 2, ..., falling, of 95 to 1."""

    qualities: Annotated[Sequence[Quality], AtLeastOne] = (40, 25, 15, 10, 6, 3, 1)

    @property
    def levels(self) -> int:  # type: ignore[override]
        """As many as there are qualities."""
        return len(self.qualities)

    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """The image compressed and opened again."""
        data = io.BytesIO()
        image.save(data, format="JPEG", quality=self.qualities[level - 1])
        with Image.open(data) as compressed:
            return compressed.convert("RGB")


@dataclass(frozen=True)
class Occlusion(ImageNoise):
    """A grey rectangle of the image's shape hides a part; step: of its area, at level 1."""

    levels: Count = 7
    step: Positive = 0.08
    seed: Seed = 0

    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """The image with step * level of its area hidden; a higher level hides more around it."""
        share = min(self.step * level, 1.0) ** 0.5
        width, height = (round(side * share) for side in image.size)
        # Where the rectangle lies, from one edge (0) to the other (1), is the same at all levels.
        across, down = _generator(self.seed, image_id).random(2)
        left = round(across * (image.width - width))
        top = round(down * (image.height - height))
        hidden = image.copy()
        hidden.paste((128, 128, 128), (left, top, left + width, top + height))
        return hidden


@dataclass(frozen=True)
class JointNoise:
    """Noise on the question and on the image at once, both at the same level.

    Raises UserError where the two have different levels or `image` disturbs no images.
    """

    question: Noise
    image: Noise

    def __post_init__(self) -> None:
        if not isinstance(self.image, DisturbsImages):
            raise UserError(f"{type(self.image).__name__} disturbs no images; choose noise.image=")
        if self.question.levels != self.image.levels:
            raise UserError(
                f"joint noise needs equally many levels, not {self.question.levels} of the "
                f"question and {self.image.levels} of the image"
            )

    @property
    def levels(self) -> int:
        """Of both."""
        return self.question.levels

    def check(self, questions: Sequence[str], training: Sequence[str]) -> None:
        """Raises UserError as the noise on the question."""
        if isinstance(self.question, Checkable):
            self.question.check(questions, training)

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """The questions as their noise disturbs them."""
        return self.question.disturbed(questions, training)

    def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
        """The image as its noise disturbs it."""
        assert isinstance(self.image, DisturbsImages)
        return self.image.disturbed_image(image, image_id, level)

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """Those of the noise on the question, where it has any."""
        if isinstance(self.question, Certified):
            return self.question.figures(questions, training)
        return {}


def _generator(seed: int, image_id: int) -> np.random.Generator:
    return np.random.default_rng([seed, image_id])
