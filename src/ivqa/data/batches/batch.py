"""Typed batches of images, questions and answers: the interface between data and models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from PIL import Image
from torch import Tensor

from ivqa.errors import UserError
from ivqa.text.vocabulary import Tokens

ANSWER_TYPES = ("yes/no", "number", "other")


class PixelSource(Protocol):
    """Opens images by their id in the data set, for models that read pixels, not features."""

    def open(self, image_id: int) -> Image.Image:
        """Returns the image in RGB.

        Raises:
            UserError: The file is missing or is not an image; the message names it.
        """


Disturb = Callable[[Image.Image, int], Image.Image]
"""A function that changes an RGB image, given the image and its id in the data set."""

PixelEncoder = Callable[[Tensor], Mapping[str, Tensor]]
"""Takes pixels (M, 3, H, W) uint8; returns features by name, each with M rows."""


@dataclass(frozen=True)
class DisturbedImages:
    """A PixelSource that changes the images of another source when they are opened."""

    source: PixelSource
    disturb: Disturb

    def open(self, image_id: int) -> Image.Image:
        """Returns the changed image in RGB; raises the errors of the source."""
        return self.disturb(self.source.open(image_id), image_id)


@dataclass(frozen=True)
class ImageBatch:
    """The M images of B samples; several questions about one image share its row.

    Features that were not requested are None.

    Args:
        ids: Ids of the images in the data set, (M,) int64; usually distinct.
        index: The row of each sample's image, (B,) int64 in [0, M).
        grid: Spatial features, (M, L, d_grid) float32.
        pooled: Global features, (M, d_pooled) float32.
        concepts: Concept probabilities in [0, 1], (M, C) float32.
        source: Opens the image files.
        pixels: The images in one size, (M, 3, H, W) uint8, for modules that compute the features.
    """

    ids: Tensor
    index: Tensor
    grid: Tensor | None = None
    pooled: Tensor | None = None
    concepts: Tensor | None = None
    source: PixelSource | None = None
    pixels: Tensor | None = None

    def feature(self, name: str) -> Tensor:
        """Returns "grid", "pooled" or "concepts" of the M images.

        Raises:
            UserError: The batch does not contain the feature.
        """
        value = getattr(self, name, None)
        if not isinstance(value, Tensor) or name in ("ids", "index", "pixels"):
            raise UserError(
                f"this batch carries no image feature '{name}'; "
                "choose features= that provide it and name it in model.image_features"
            )
        return value

    def select(self, rows: Tensor) -> "ImageBatch":
        """Returns the samples `rows` (B',); the M images stay the same."""
        return replace(self, index=self.index[rows])

    def repeat_interleave(self, repeats: int) -> "ImageBatch":
        """Repeats every sample `repeats` times in a row; the M images stay the same."""
        return replace(self, index=self.index.repeat_interleave(repeats, 0))

    def used(self) -> "ImageBatch":
        """Returns the same samples without the images that no sample refers to."""
        rows, index = self.index.unique(return_inverse=True)  # (M',) ascending, (B,)
        if len(rows) == len(self.ids):
            return self
        kept: dict[str, Any] = {
            name: value[rows]
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and name != "index"
        }
        return replace(self, index=index, **kept)

    def encoded(self, encoder: PixelEncoder | None) -> "ImageBatch":
        """Computes features from the pixels, once for each image that a sample refers to.

        The other images are left out. Without an encoder, as for a model that reads stored
        features, it is the batch itself.

        Raises:
            UserError: There is an encoder, and the batch has no pixels.
        """
        if encoder is None:
            return self
        if self.pixels is None:
            raise UserError(
                "this model computes image features from pixels, which this batch does not carry; "
                "choose the features= that the model was trained with, such as trainable"
            )
        seen = ImageBatch(self.ids, self.index, source=self.source, pixels=self.pixels).used()
        assert seen.pixels is not None
        features: dict[str, Any] = dict(encoder(seen.pixels))
        return replace(seen, **features)

    def to(self, device: Any, **kwargs: Any) -> "ImageBatch":
        """Returns the batch on another device; the arguments are those of `Tensor.to`."""
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

    Optional tensors are None unless `BatchContents` requests them.

    Args:
        rows: Rows of the split, (B,) int64.
        images: The images of the questions.
        question: Words of the questions.
        answer: Words of the main answers (the most frequent answers of the annotators).
        answer_type: Indices into ANSWER_TYPES, (B,) int64; -1 if unknown.
        target: Indices of the main answers in the answer vocabulary A, (B,) int64; -1 outside it.
        soft_targets: The VQA accuracy in [0, 1] of every answer of A, (B, |A|) float32.
        layout: Expert layouts in the numbers of the model, (B, T) int64.
        answer_counts: How many annotators gave each answer of A, (B, |A|) float32.
        counted: Which questions the evaluation of the data set counts, (B,) bool; None for all.
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
    counted: Tensor | None = None

    def encoded(self, encoder: PixelEncoder | None) -> "VQABatch":
        """Returns the batch with image features from pixels; see `ImageBatch.encoded`."""
        return replace(self, images=self.images.encoded(encoder))

    def to(self, device: Any, **kwargs: Any) -> "VQABatch":
        """Returns the batch on another device; the arguments are those of `Tensor.to`."""
        moved = {
            name: value.to(device, **kwargs)
            for name, value in vars(self).items()
            if value is not None
        }
        return VQABatch(**moved)

    def __len__(self) -> int:
        return self.rows.shape[0]
