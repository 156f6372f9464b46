"""The variational generator with attention over the image grid.

Encoder  as in `variational`: q(z | I, q) from the question and the global image features
Decoder  h_0 = W_z z + W_I f_I + W_a a + joint term;  h_1, ..., h_T by an LSTM, as in `variational`
         x_t = h_t, then for each layer x_t = GridAttention(x_t, grid, gates of a)
         p(w_t | w_<t; z, I, a) = softmax(W x_t)

The attention comes after the LSTM, so that all words of a question attend at once in training.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.generators.networks.attention import GridAttention, Grids, PlacedGrid
from ivqa.generators.networks.decoder import Look
from ivqa.generators.networks.network import Conditions
from ivqa.generators.networks.variational import VariationalGenerator
from ivqa.ranges import Count
from ivqa.text.vocabulary import Tokens


class AttentiveGenerator(VariationalGenerator):
    """p(q | z, I, a) whose words attend to the cells of the image grid.

    Args:
        feature_sizes: Last dimension of each image feature. "grid" is attended to; f_I is formed
            by all of them, the grid by its mean.
        grid_size: Dimensions of a projected cell.
        layers: Number of attention layers.
        heads: Heads of each layer.
        **variational: Arguments of `VariationalGenerator`.

    Raises:
        UserError: There is no feature "grid".
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        feature_sizes: Mapping[str, int],
        grid_size: Count = 128,
        layers: Count = 2,
        heads: Count = 4,
        **variational: Any,
    ) -> None:
        super().__init__(feature_sizes=feature_sizes, **variational)
        if "grid" not in feature_sizes:
            raise UserError(
                "this generator attends to the grid of the image; add grid to model.image_features"
            )
        size = self.decoder.hidden_size
        self.placed = PlacedGrid(grid_size=feature_sizes["grid"], size=grid_size)
        self.layers = nn.ModuleList(
            GridAttention(
                size=size,
                grid_size=grid_size,
                heads=heads,
                dropout=self.decoder.dropout.probability,
            )
            for _ in range(layers)
        )
        self.gates = nn.Linear(self.answer_encoder.size, layers * 3 * size)

    @override
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """Computes the conditions of `VariationalGenerator`, and the cells of the grids."""
        gates = 1 + self.gates(self.answer_encoder(answer)).unflatten(1, (len(self.layers), -1))
        grids = Grids(self.placed(images.feature("grid")), images.index, gates)
        return replace(super().conditions(images, answer), grids=grids)

    @override
    def look(self, conditions: Conditions) -> Look:
        assert conditions.grids is not None  # set by conditions() above
        grids = conditions.grids

        def attend(words: Tensor, row: Tensor) -> Tensor:
            own = Grids(grids.cells, grids.image[row])
            assert grids.gates is not None
            for layer, gates in zip(self.layers, grids.gates[row].unbind(dim=1), strict=True):
                words = layer(words, own, gates)
            return words

        return attend
