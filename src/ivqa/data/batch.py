"""What data hands to models: typed batches of images, questions and answers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from PIL import Image
from torch import Tensor

from ivqa.errors import UserError
from ivqa.text.vocabulary import Tokens

ANSWER_TYPES = ("yes/no", "number", "other")


class PixelSource(Protocol):
    """Opens images by data-set image id, for models that read pixels rather than features."""

    def open(self, image_id: int) -> Image.Image:
        """The image in RGB. Raises UserError naming the file where it is missing or no image."""


Disturb = Callable[[Image.Image, int], Image.Image]
"""Changes an RGB image, given its data-set id too."""


@dataclass(frozen=True)
class DisturbedImages:
    """The images of another source, each changed as it is opened; satisfies PixelSource."""

    source: PixelSource
    disturb: Disturb

    def open(self, image_id: int) -> Image.Image:
        """The changed image in RGB. Raises UserError as the source does."""
        return self.disturb(self.source.open(image_id), image_id)


@dataclass(frozen=True)
class ImageBatch:
    """M distinct (or not) images behind B samples; many questions on one image share one row.

    ids: (M,) int64, data-set image ids. index: (B,) int64, the row of each sample's image.
    grid: (M, L, d_grid) spatial features. pooled: (M, d_pooled) global features.
    concepts: (M, C) concept probabilities in [0, 1]. Features not asked for are None.
    """

    ids: Tensor
    index: Tensor
    grid: Tensor | None = None
    pooled: Tensor | None = None
    concepts: Tensor | None = None
    source: PixelSource | None = None

    def feature(self, name: str) -> Tensor:
        """The feature `name` of the M images. Raises UserError if the batch does not carry it."""
        value = getattr(self, name, None)
        if not isinstance(value, Tensor) or name in ("ids", "index"):
            raise UserError(
                f"this batch carries no image feature '{name}'; "
                "choose features= that provide it and name it in model.image_features"
            )
        return value

    def per_sample(self, name: str) -> Tensor:
        """The feature `name` of each of the B samples."""
        return self.feature(name)[self.index]

    def select(self, rows: Tensor) -> "ImageBatch":
        """The samples `rows` (B',), sharing the same M images."""
        return replace(self, index=self.index[rows])

    def repeat_interleave(self, repeats: int) -> "ImageBatch":
        """Every sample `repeats` times in a row, sharing the same M images."""
        return replace(self, index=self.index.repeat_interleave(repeats, 0))

    def to(self, device: Any, **kwargs: Any) -> "ImageBatch":
        """The same batch on another device."""
        moved: dict[str, Any] = {
            name: value.to(device, **kwargs)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def __len__(self) -> int:
        return self.index.shape[0]


@dataclass(frozen=True)
class VQABatch:
    """B question-answer pairs on images.

    rows: (B,) int64, rows of the split they come from. question, answer: words of the question
    and of the main answer (the annotators' mode). answer_type: (B,) int64 index into
    ANSWER_TYPES. target: (B,) int64 index of the main answer in the answer vocabulary, -1 outside
    it. soft_targets: (B, |A|) float in [0, 1], the accuracy that each answer of the vocabulary
    would get from the annotators; None where the model does not ask for them. layout: (B, T)
    int64 expert layouts in the model's own numbers; None likewise. answer_counts: (B, |A|) float,
    how many annotators gave each answer of the vocabulary; None likewise.
    """

    rows: Tensor
    images: ImageBatch
    question: Tokens
    answer: Tokens
    answer_type: Tensor
    target: Tensor
    soft_targets: Tensor | None = None
    layout: Tensor | None = None
    answer_counts: Tensor | None = None

    def to(self, device: Any, **kwargs: Any) -> "VQABatch":
        """The same batch on another device."""
        moved = {
            name: value.to(device, **kwargs)
            for name, value in vars(self).items()
            if value is not None
        }
        return VQABatch(**moved)

    def __len__(self) -> int:
        return self.rows.shape[0]
