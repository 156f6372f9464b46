"""MCB: multimodal compact bilinear pooling with attention (Fukui et al., EMNLP 2016).

Psi x [j]  = sum_{i: h_i = j} s_i x_i                     count sketch; h and s are drawn once
Phi(x, y)  = irfft(rfft(Psi_1 x) * rfft(Psi_2 y))         a sketch of the outer product
f(x, y)    = r / |r|,  r = sign(Phi) sqrt(|Phi|)
alpha      = softmax_L(W_2 relu(W_1 f(q, v_n)))           (B, G, L)
logits     = W f(q, concat_g sum_n alpha_gn v_n)          (B, K)
Dropout follows both f.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import OneFeatureNetwork, SharedDropout
from ivqa.vqa.networks import kernels
from ivqa.vqa.networks.question_encoder import QuestionEncoder
from ivqa.vqa.networks.stacked_encoder import StackedLSTMEncoder

# The square root has an infinite slope at 0. Pooled values are about 1e-2.
_EPSILON = 1e-5


class CountSketch(nn.Module):
    """Psi: adds each of n = `input_size` inputs with a random sign to one of d = `size` outputs."""

    place: Tensor  # h, (n,) int64
    sign: Tensor  # s, (n,) of -1 and 1

    def __init__(self, *, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        # Buffers, because a checkpoint without h and s would be useless.
        self.register_buffer("place", torch.randint(size, (input_size,)))
        self.register_buffer("sign", torch.randint(2, (input_size,)) * 2.0 - 1)

    def forward(self, values: Tensor) -> Tensor:
        """Computes the sketch Psi x, float32 (..., d), of x (..., n)."""
        values = values.float() * self.sign
        sketch = values.new_zeros(*values.shape[:-1], self.size)
        return sketch.index_add(-1, self.place, values)


class CompactBilinear(nn.Module):
    """Phi of two vectors, with a sketch of d = `size` values of its own for each."""

    def __init__(self, *, first_size: int, second_size: int, size: int) -> None:
        super().__init__()
        self.first = CountSketch(input_size=first_size, size=size)
        self.second = CountSketch(input_size=second_size, size=size)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Phi(x, y), an unbiased sketch of the outer product x y^T, float32 (..., d)."""
        return circular_convolution(self.first(first), self.second(second))


def circular_convolution(first: Tensor, second: Tensor) -> Tensor:
    """The circular convolution irfft(rfft(x) * rfft(y)) along the last axis.

    x and y are float32 (..., d), whose leading axes broadcast, as is the convolution.

    Example:
        >>> circular_convolution(torch.tensor([1.0, 2, 3]), torch.tensor([0.0, 1, 0]))
        tensor([3., 1., 2.])
    """
    return torch.fft.irfft(torch.fft.rfft(first) * torch.fft.rfft(second), n=first.shape[-1])


def signed_root(values: Tensor) -> Tensor:
    """Computes sign(x) sqrt(|x|) with unit L2 norm along the last axis of x (..., d).

    |x| + 1e-5 takes the place of |x| in both square roots, so that slopes are finite.
    """
    sizes = values.abs() + _EPSILON
    # The root is x / sqrt(sizes), and its norm is the square root of the summed sizes.
    return values * (sizes * sizes.sum(dim=-1, keepdim=True)).rsqrt()


class MCB(OneFeatureNetwork):
    """Two poolings: one scores the positions, one answers. The grid has unit norm as a whole.

    Deviations from the paper: the glimpses have no bias, which softmax cancels; the layers behind
    the sketches start with larger weights. Each position is normalised on its own here; the paper
    does not say whether its attention normalises all positions together.

    Args:
        question_encoder: Called with num_words.
        size: d of the sketches that answer.
        attention_size: d of the sketches of the attention, one for each position; None: size.
        hidden_size: Size between the attention's two layers.
        num_glimpses: G, attention maps.
        dropout: Behind the poolings.
        attention_root: Whether the attention takes signed roots before the unit norm, as in the
            paper.
        pool: pool x pool positions of the grid become one, their maximum; 1 keeps all.
        standardise: Whether channels first get mean 0 and variance 1. The paper neither pools nor
            standardises; here, what all positions of rectified features share would fill the
            sketches.
        inputs: See `OneFeatureNetwork`.
    """

    version: ClassVar[int] = 1

    name = "mcb"
    reads_grid = True

    def __init__(
        self,
        *,
        question_encoder: Callable[..., QuestionEncoder] = StackedLSTMEncoder,
        size: Count = 16000,
        attention_size: Count | None = None,
        hidden_size: Count = 512,
        num_glimpses: Count = 2,
        dropout: ShareBelowOne = 0.1,
        attention_root: bool = True,
        pool: Count = 1,
        standardise: bool = False,
        **inputs: Any,
    ) -> None:
        super().__init__(**inputs)
        self.pool, self.attention_root = pool, attention_root
        self.standard = nn.BatchNorm1d(self.feature_size, affine=False) if standardise else None
        self.question_encoder = question_encoder(num_words=self.num_words)
        q_size, v_size = self.question_encoder.size, self.feature_size
        sketch = attention_size or size
        self.attention_pooling = CompactBilinear(first_size=q_size, second_size=v_size, size=sketch)
        self.hidden = nn.Linear(sketch, hidden_size)  # W_1
        self.glimpses = nn.Linear(hidden_size, num_glimpses, bias=False)  # W_2
        self.pooling = CompactBilinear(
            first_size=q_size, second_size=v_size * num_glimpses, size=size
        )
        self.output = nn.Linear(size, self.num_answers)  # W
        self.dropout = nn.Dropout(dropout)
        self.dropout_places = SharedDropout(dropout)
        nn.init.xavier_uniform_(self.glimpses.weight)
        # f has unit norm. With weights of the usual size, all positions would get the same weight
        # and all answers the same probability for a large part of training.
        nn.init.normal_(self.hidden.weight)
        nn.init.normal_(self.output.weight, std=0.1)

    def _normalised_grid(self, images: ImageBatch) -> Tensor:
        """Grids of M images, of unit norm, (M, L / pool^2, d_v)."""
        grid = self.grid_of(images, self.pool)
        if self.standard is not None:
            grid = self.standard(grid.flatten(0, 1)).view_as(grid)
        return F.normalize(grid.flatten(1), dim=1).view_as(grid)

    def attention(self, grid: Tensor, index: Tensor, q: Tensor) -> Tensor:
        """Computes the attention maps alpha, float32 (B, G, L), each of which sums to 1.

        Args:
            grid: v of M images, (M, L, d_v).
            index: Image of each question, (B,) int64.
            q: Encoded questions, (B, d_q).
        """
        q_sketch = self.attention_pooling.first(q)[:, None]  # Psi_1 q, (B, 1, d)
        v_sketch = self.attention_pooling.second(grid)[index]  # Psi_2 v_n, (B, L, d)
        phi = circular_convolution(q_sketch, v_sketch)  # Phi(q, v_n), (B, L, d)
        f = signed_root(phi) if self.attention_root else F.normalize(phi, dim=-1)
        hidden = self.hidden(self.dropout_places(f)).relu()  # (B, L, d_h)
        return self.glimpses(hidden).float().softmax(dim=1).mT

    @override
    def attention_maps(self, images: ImageBatch, question: Tokens) -> Tensor:
        grid = self._normalised_grid(images)  # (M, L, d_v)
        return self.attention(grid, images.index, self.question_encoder(question))

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        grid = self._normalised_grid(images)  # v, (M, L, d_v)
        q = self.question_encoder(question)  # (B, d_q)
        alpha = self.attention(grid, images.index, q).to(grid.dtype)  # (B, G, L)
        v = kernels.matmul_by_image(alpha, grid, images.index).flatten(1)  # (B, G d_v)
        f = signed_root(self.pooling(q, v))  # (B, d)
        return self.output(self.dropout(f))
