"""What the networks of the zoo have in common: features and a question in, answer logits out."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.text.vocabulary import Tokens


@dataclass(frozen=True)
class TrainingOutput:
    """Answer logits (B, K) of a training batch, and what else the network learns from.

    further: called with the answers' losses (B,), gives further losses by name, scalars.
    """

    logits: Tensor
    further: Callable[[Tensor], dict[str, Tensor]] = lambda _: {}


class VQANetwork(nn.Module, ABC):
    """Logits of the K answers; a model of the zoo is one subclass in its own file."""

    encode_layouts: Callable[[Sequence[Sequence[str]]], Tensor] | None = None
    """Expert layouts as numbers (N, T), for networks that learn from them.

    Such a network also has `follow` and `plan`.
    """

    def follow(self, batch: VQABatch) -> Tensor:
        """Answer logits (B, K) under the batch's expert layouts."""
        raise NotImplementedError(f"{type(self).__name__} follows no layouts")

    def plan(self, question: Tokens) -> list[list[str]]:
        """The layouts that `forward` uses for B questions, as module names."""
        raise NotImplementedError(f"{type(self).__name__} makes no layouts")

    @classmethod
    def check_features(
        cls, arguments: Mapping[str, Any], model: str, places: Mapping[str, int | None]
    ) -> None:
        """Checks the choice of features, before any are computed.

        Args:
            arguments: Of the constructor, defaults included.
            model: What errors call the network.
            places: Of each chosen feature, how many an image has; None: one vector an image.

        Raises:
            UserError: where the network cannot read these features.
        """

    @abstractmethod
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Answer logits (B, K) of B questions about M images."""

    def train_forward(self, batch: VQABatch) -> TrainingOutput:
        """What a training step needs; the logits alone unless a network overrides it."""
        return TrainingOutput(self(batch.images, batch.question))


class OneFeatureNetwork(VQANetwork):
    """A network that reads one feature, global or spatial."""

    @classmethod
    def check_features(
        cls, arguments: Mapping[str, Any], model: str, places: Mapping[str, int | None]
    ) -> None:
        """Raises UserError where there is another number of features."""
        single_feature(dict.fromkeys(places, 0), model)


class GridNetwork(OneFeatureNetwork):
    """A network that reads one spatial feature."""

    @classmethod
    def check_features(
        cls, arguments: Mapping[str, Any], model: str, places: Mapping[str, int | None]
    ) -> None:
        """Raises UserError where the feature is global, or cannot be pooled as asked."""
        super().check_features(arguments, model, places)
        ((name, number),) = places.items()
        check_places(name, number, int(arguments.get("pool", 1)))


class SharedDropout(nn.Dropout1d):
    """Dropout of (B, L, d) with one mask for all L places of an image or words of a question.

    It draws L times fewer random numbers than nn.Dropout, a sixth of MLB's training step on a CPU.
    """

    def forward(self, values: Tensor) -> Tensor:
        """`values`, unchanged in evaluation."""
        return super().forward(values.transpose(1, 2)).transpose(1, 2)


class _Tanh(torch.autograd.Function):
    """tanh of bfloat16 by way of float32; the backward pass reads the bfloat16 result."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        result = values.float().tanh_().to(values.dtype)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(gradient, result)


def tanh(values: Tensor) -> Tensor:
    """Tanh of each of `values`, for what has as many as the places of images.

    torch's own takes a CPU three times as long in bfloat16 as it does there and back in float32.
    """
    if values.dtype is torch.bfloat16 and values.device.type == "cpu":
        return _Tanh.apply(values)
    return values.tanh()


class _ProductsWithFew(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, few: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(few, values)
        return torch.bmm(few, values.mT)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        few, values = ctx.saved_tensors
        gradient = gradient.to(values.dtype)  # autocast multiplies in another
        return (
            torch.bmm(gradient, values) if ctx.needs_input_grad[0] else None,
            torch.bmm(gradient.mT, few) if ctx.needs_input_grad[1] else None,
        )


def products_with_few(few: Tensor, values: Tensor) -> Tensor:
    """Products (B, G, L) of few vectors (B, G, d), fewer than 16 say, with many (B, L, d).

    The other way round, with G columns, a CPU takes two to three times as long; and autograd's own
    gradient of `values` lies in memory transposed, which everything before it has to read.
    """
    products: Tensor = _ProductsWithFew.apply(few.to(values.dtype), values)
    return products


def products_by_image(few: Tensor, values: Tensor, index: Tensor | None) -> Tensor:
    """`products_with_few` of what is asked (B, G, d) and the images (M, L, d) asked about.

    Questions about one image are multiplied with it together, so that it need not be repeated
    for each of them, where images have about as many questions each. index None: M = B.
    """
    if index is None:
        return products_with_few(few, values)
    if 2 * len(values) > len(index):
        return products_with_few(few, _repeated(values, index))
    asked, index, counts = index.unique(return_inverse=True, return_counts=True)
    if len(asked) < len(values):
        values = values.index_select(0, asked)
    width = int(counts.max())
    if width * len(values) > 2 * len(index):
        return products_with_few(few, _repeated(values, index))
    order = index.argsort(stable=True)
    before = (counts.cumsum(0) - counts)[index[order]]  # of the questions about earlier images
    place = torch.empty_like(index)
    place[order] = index[order] * width + torch.arange(len(index), device=index.device) - before
    spread = few.new_zeros(len(values) * width, *few.shape[1:]).index_copy(0, place, few)
    products = products_with_few(spread.view(len(values), -1, few.shape[2]), values)
    return products.view(len(spread), few.shape[1], -1).index_select(0, place)


def repeated_unless_shared(values: Tensor, index: Tensor) -> tuple[Tensor, Tensor | None]:
    """Images (M, L, d) and index of `products_by_image`, or (B, L, d) and None.

    Where images hardly repeat, repeating features is cheaper than what is made of them, and needs
    no backward pass.
    """
    if 2 * len(values) > len(index):
        return values.index_select(0, index), None
    return values, index


def _repeated(values: Tensor, index: Tensor) -> Tensor:
    """values[index], which copies in the order in which the values lie."""
    if values.mT.is_contiguous():
        return values.mT.index_select(0, index).mT
    return values.index_select(0, index)


def single_feature(feature_sizes: Mapping[str, int], model: str) -> tuple[str, int]:
    """Name and size of the one image feature that `model` reads.

    Raises UserError where none or several are given.
    """
    if len(feature_sizes) != 1:
        raise UserError(
            f"{model} reads exactly one image feature, not {sorted(feature_sizes)}; "
            "name one in model.image_features"
        )
    ((name, size),) = feature_sizes.items()
    return str(name), int(size)


def checked_feature(images: ImageBatch, name: str, size: int) -> Tensor:
    """The feature of the M images. Raises UserError where it has not the size trained with."""
    feature = images.feature(name)
    if feature.shape[-1] != size:
        raise UserError(
            f"image feature '{name}' has {feature.shape[-1]} dimensions, but this model was built "
            f"for {size}; use the features= it was trained with"
        )
    return feature


def check_places(name: str, number: int | None, pool: int = 1) -> None:
    """Raises UserError where a feature has no places, or none that pool x pool tiles cover."""
    if number is None:
        raise UserError(
            f"attention needs a spatial feature, but '{name}' is one vector an image; "
            "use model.image_features=[grid]"
        )
    side = math.isqrt(number)
    if pool > 1 and (side * side != number or side % pool):
        raise UserError(
            f"image feature '{name}' has {number} places, which are not a square of "
            f"{pool} x {pool} tiles; set model.module.network.pool=1"
        )


def checked_grid(images: ImageBatch, name: str, size: int, pool: int = 1) -> Tensor:
    """A spatial feature (M, L / pool^2, d), the largest of pool x pool neighbours.

    Raises UserError where the feature is global, or no square that can be pooled.
    """
    grid = checked_feature(images, name, size)
    check_places(name, grid.shape[1] if grid.dim() == 3 else None, pool)
    if pool == 1:
        return grid
    side = math.isqrt(grid.shape[1])
    tiles = grid.reshape(len(grid), side // pool, pool, side // pool, pool, size)
    # One axis after the other: over both at once, torch takes a CPU twenty times as long.
    return tiles.amax(dim=4).amax(dim=2).flatten(1, 2)
