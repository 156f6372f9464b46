"""The base classes of the networks: image features and a question in, answer logits out."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.text.vocabulary import Tokens

Cell = TypeVar("Cell", bound=nn.RNNBase)


@dataclass(frozen=True)
class TrainingOutput:
    """What a network returns for a training batch.

    Args:
        logits: Answer logits, (B, K).
        further: Takes the answer losses (B,) and returns additional scalar losses by name.
    """

    logits: Tensor
    further: Callable[[Tensor], dict[str, Tensor]] = lambda _: {}


class VQANetwork(nn.Module, ABC):
    """A network that computes logits of K answers; each model is one subclass in its own file.

    `encode_layouts` takes N expert layouts, lists of module names, and returns them as token
    numbers (N, T). It is None for networks that do not learn from layouts; networks that do, such
    as `N2NMN`, also define `follow` and `plan`.
    """

    encode_layouts: Callable[[Sequence[Sequence[str]]], Tensor] | None = None

    @classmethod
    def check_features(
        cls, arguments: Mapping[str, Any], model: str, places: Mapping[str, int | None]
    ) -> None:
        """Checks the chosen features before any are computed.

        Args:
            arguments: Arguments of the constructor, defaults included.
            model: Name of the network in error messages.
            places: Number of positions of each chosen feature; None for one vector an image.

        Raises:
            UserError: The network cannot read these features.
        """

    @abstractmethod
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Computes answer logits (B, K) of B questions about M images."""

    def attention_maps(self, images: ImageBatch, question: Tokens) -> Tensor | None:
        """Computes the weights of the positions that lead to the answers of `forward`.

        Returns:
            G maps of each question, float32 (B, G, L), which sum to 1; None for a network without
            attention over the image.
        """
        return None

    def train_forward(self, batch: VQABatch) -> TrainingOutput:
        """Computes what a training step needs; by default the logits alone."""
        return TrainingOutput(self(batch.images, batch.question))


class OneFeatureNetwork(VQANetwork):
    """A network that reads one feature, global or spatial.

    Args:
        num_words: Size of the vocabulary, special tokens included.
        num_answers: K.
        feature_sizes: Name and size (number of channels) of one feature.

    Raises:
        UserError: There is not exactly one feature.
    """

    name: ClassVar[str]
    """Name of the network in error messages."""
    reads_grid: ClassVar[bool] = False
    """Whether the feature must be spatial."""

    def __init__(
        self, *, num_words: int, num_answers: int, feature_sizes: Mapping[str, int]
    ) -> None:
        super().__init__()
        self.num_words, self.num_answers = num_words, num_answers
        self.feature, self.feature_size = _single_feature(feature_sizes, self.name)

    @classmethod
    @override
    def check_features(
        cls, arguments: Mapping[str, Any], model: str, places: Mapping[str, int | None]
    ) -> None:
        _single_feature(dict.fromkeys(places, 0), model)
        if cls.reads_grid:
            ((name, number),) = places.items()
            _check_places(name, number, int(arguments.get("pool", 1)))

    def grid_of(self, images: ImageBatch, pool: int = 1) -> Tensor:
        """The grids of M images, max-pooled over pool x pool tiles, (M, L / pool^2, d_v).

        Raises:
            UserError: The feature is global, has another size, or its grid cannot be pooled.
        """
        grid = self._checked(images)
        _check_places(self.feature, grid.shape[1] if grid.dim() == 3 else None, pool)
        if pool == 1:
            return grid
        side = math.isqrt(grid.shape[1])
        tiles = grid.unflatten(1, (side // pool, pool, side // pool, pool))
        # One axis at a time: amax over both at once is twenty times slower on a CPU.
        return tiles.amax(dim=4).amax(dim=2).flatten(1, 2)

    def vector_of(self, images: ImageBatch) -> Tensor:
        """The global features of M images, or the means of their grids, (M, d_v)."""
        v = self._checked(images)
        return v.mean(dim=1) if v.dim() == 3 else v

    def _checked(self, images: ImageBatch) -> Tensor:
        """The feature of M images; raises UserError where its last axis has another size."""
        feature = images.feature(self.feature)
        if feature.shape[-1] != self.feature_size:
            raise UserError(
                f"image feature '{self.feature}' has {feature.shape[-1]} dimensions, but this "
                f"model was built for {self.feature_size}; use the features= it was trained with"
            )
        return feature


class SharedDropout(nn.Dropout1d):
    """Dropout of (B, L, d) with one mask for all L positions of an image or words of a question.

    It draws L times fewer random numbers than nn.Dropout, which would take a sixth of a training
    step of MLB on a CPU.
    """

    def forward(self, values: Tensor) -> Tensor:
        """Drops channels of values (B, L, d); the values themselves in evaluation mode."""
        return super().forward(values.transpose(1, 2)).transpose(1, 2)


def recurrent_layers(
    cell: Callable[..., Cell], input_size: int, size: int, layers: int, dropout: float
) -> Cell:
    """Builds a batch-first LSTM or GRU with dropout between its layers; one layer has none."""
    between = dropout if layers > 1 else 0.0
    return cell(input_size, size, layers, batch_first=True, dropout=between)


def _single_feature(feature_sizes: Mapping[str, int], model: str) -> tuple[str, int]:
    """Returns name and size of the only image feature, or raises UserError."""
    if len(feature_sizes) != 1:
        raise UserError(
            f"{model} reads exactly one image feature, not {sorted(feature_sizes)}; "
            "name one in model.image_features"
        )
    ((name, size),) = feature_sizes.items()
    return str(name), int(size)


def _check_places(name: str, number: int | None, pool: int = 1) -> None:
    """Raises UserError where a feature is global or pool x pool tiles do not cover its grid."""
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
