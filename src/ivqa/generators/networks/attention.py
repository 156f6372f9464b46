"""Attention of the words of questions over the grids of their images.

Vaswani et al., "Attention is all you need", NeurIPS 2017. The grid of an image is projected once,
and all questions about the image attend to it together; it is never copied for a question.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Grids:
    """The grids of M images, and for each of N rows its image and how its answer reads it.

    Args:
        cells: The cells with their places, (M, L, d).
        image: (N,) int64 in [0, M).
        gates: (N, K, 3 * size), the gates of K layers, see `GridAttention`; None without gates.
    """

    cells: Tensor
    image: Tensor
    gates: Tensor | None = None

    def select(self, rows: Tensor) -> "Grids":
        """Selects rows (N',) int64; keeps the cells, unless most belong to none of the rows."""
        image = self.image[rows]
        gates = None if self.gates is None else self.gates[rows]
        used, own = image.unique(return_inverse=True)
        if 2 * len(used) > len(self.cells):
            return Grids(self.cells, image, gates)
        return Grids(self.cells[used], own, gates)


class PlacedGrid(nn.Module):
    """Projects the cells of a grid to `size` dimensions, and adds where each cell is.

    Its place is given by sines and cosines of `frequencies` frequencies in each direction.
    """

    def __init__(self, *, grid_size: int, size: int, frequencies: int = 4) -> None:
        super().__init__()
        self.frequencies = frequencies
        self.cells = nn.Linear(grid_size, size)
        self.places = nn.Linear(4 * frequencies, size, bias=False)
        self.norm = nn.LayerNorm(size)

    def forward(self, grid: Tensor) -> Tensor:
        """Computes norm(W g + W_p p) of every cell g of grids (M, L, grid_size), (M, L, d)."""
        places = place_features(grid.shape[1], self.frequencies).to(grid)
        return self.norm(self.cells(grid) + self.places(places))


class GridAttention(nn.Module):
    """x + g_1 * W_o [head_1; ...; head_H], then x + W (g_2 * gelu(V norm(x))), as in a transformer.

    The gates g_1 and g_2 come from the answer. What a word sees counts the other way round for
    "no" than for "yes", and a sum of image and answer cannot express that.

    head_h = Attention(W_h norm(x), g, g): keys and values are the cells themselves. Multi-head
    attention with keys W_k g and values W_v g is the same function, because W_k can be multiplied
    into W_h, and W_v into W_o; here no cell is projected, and there are far more cells than words.
    There is dropout of the two terms in training.
    """

    def __init__(self, *, size: int, grid_size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.query = nn.LayerNorm(size), nn.Linear(size, heads * grid_size)
        self.output = nn.Linear(heads * grid_size, size)
        self.inner = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.GELU())
        self.outer = nn.Linear(2 * size, size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: Tensor, grids: Grids, gates: Tensor | None = None) -> Tensor:
        """Adds to the words (N, T, size) of N rows what they find in their grids.

        The gates g_1 and g_2 of the rows are (N, 3 * size); None for gates of 1.
        """
        query = self.query(self.norm(words)).unflatten(2, (self.heads, -1))  # (N, T, H, d)
        found = attend(query.flatten(1, 2), grids).unflatten(1, (-1, self.heads))
        found, size = self.output(found.flatten(2)), words.shape[2]
        if gates is not None:
            found = found * gates[:, None, :size]
        words = words + self.dropout(found)
        inner = self.inner(words)
        if gates is not None:
            inner = inner * gates[:, None, size:]
        return words + self.dropout(self.outer(inner))


def attend(query: Tensor, grids: Grids) -> Tensor:
    """Attention of N rows, each over the grid of its own image: softmax(q g / sqrt(d)) g.

    The rows of an image attend together, so that its grid is read once. Queries and results are
    (N, Q, d), for Q queries of each row.
    """
    used, own = grids.image.unique(return_inverse=True)
    cells = grids.cells if len(used) == len(grids.cells) else grids.cells[used]  # (M, L, d)
    counts = own.bincount(minlength=len(used))
    # The place of each row among the rows of its image.
    order = own.argsort(stable=True)
    place = torch.empty_like(own)
    place[order] = (
        torch.arange(len(own), device=own.device) - (counts.cumsum(0) - counts)[own[order]]
    )
    padded = query.new_zeros(len(used), int(counts.max()), *query.shape[1:])
    padded[own, place] = query
    # Two products: the fused kernel's backward pass on a CPU takes three times as long.
    scores = padded.flatten(1, 2) @ cells.transpose(1, 2) / cells.shape[2] ** 0.5  # (M, X, L)
    found = scores.softmax(dim=2).to(cells.dtype) @ cells
    return found.view(padded.shape)[own, place]


def place_features(positions: int, frequencies: int) -> Tensor:
    """Sines and cosines of the places of L cells, (L, 4 * frequencies) float32.

    If L, the number of `positions`, is no square number, the cells count as one row.
    """
    side = math.isqrt(positions)
    rows, columns = (side, side) if side * side == positions else (1, positions)
    across, down = (torch.arange(n, dtype=torch.float32) / max(n - 1, 1) for n in (columns, rows))
    place = torch.stack(
        [down.repeat_interleave(columns), across.repeat(rows)], dim=1
    )  # (L, 2) in [0, 1]
    angles = place[:, :, None] * math.pi * 2.0 ** torch.arange(frequencies)
    return torch.cat([angles.sin(), angles.cos()], dim=2).flatten(1)
