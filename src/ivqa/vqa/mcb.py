"""MCB: multimodal compact bilinear pooling with attention (Fukui et al., EMNLP 2016).

Phi(x, y) = irfft(rfft(Psi_1 x) * rfft(Psi_2 y)),  Psi x [j] = sum_{i: h_i = j} s_i x_i
then signed square root, unit L2 norm, dropout; h and s are drawn once and kept.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.data.batch import ImageBatch
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import (
    SharedDropout,
    VQANetwork,
    checked_grid,
    products_by_image,
    single_feature,
)
from ivqa.vqa.question_encoder import QuestionEncoder
from ivqa.vqa.stacked_encoder import StackedLSTMEncoder

# The square root has an infinite slope at 0; what is pooled is about 1e-2.
_EPSILON = 1e-5


class CountSketch(nn.Module):
    """Psi: (..., n) -> (..., d), each input added with a random sign to a random output."""

    place: Tensor  # h, (n,) int64
    sign: Tensor  # s, (n,) of -1 and 1

    def __init__(self, *, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        # Buffers: without them a checkpoint would be useless.
        self.register_buffer("place", torch.randint(size, (input_size,)))
        self.register_buffer("sign", torch.randint(2, (input_size,)) * 2.0 - 1)

    def forward(self, values: Tensor) -> Tensor:
        """The sketch (..., d) in float32 of values (..., n)."""
        values = values.float() * self.sign
        sketch = values.new_zeros(*values.shape[:-1], self.size)
        return sketch.index_add(-1, self.place, values)


class _CircularConvolution(torch.autograd.Function):
    """irfft(rfft(x) * rfft(y)) of real x and y, (..., d).

    Its gradients are correlations, irfft(rfft(g) * conj(rfft(y))), real transforms as well; torch
    transforms complex vectors of full length where it derives rfft, which takes a CPU half of the
    step.
    """

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
        spectra = torch.fft.rfft(first), torch.fft.rfft(second)
        ctx.save_for_backward(*spectra)
        return torch.fft.irfft(spectra[0] * spectra[1], n=first.shape[-1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        first, second = ctx.saved_tensors
        spectrum, size = torch.fft.rfft(gradient), gradient.shape[-1]
        return (
            torch.fft.irfft(spectrum * second.conj(), n=size),
            torch.fft.irfft(spectrum * first.conj(), n=size),
        )


class CompactBilinear(nn.Module):
    """Phi of two vectors; the spectra of its arguments can be computed once and reused."""

    def __init__(self, *, first_size: int, second_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.first = CountSketch(input_size=first_size, size=size)
        self.second = CountSketch(input_size=second_size, size=size)

    def spectrum_first(self, values: Tensor) -> Tensor:
        """The spectrum rfft(Psi_1 x), complex (..., d // 2 + 1)."""
        return torch.fft.rfft(self.first(values))

    def spectrum_second(self, values: Tensor) -> Tensor:
        """The spectrum rfft(Psi_2 y), complex (..., d // 2 + 1)."""
        return torch.fft.rfft(self.second(values))

    def combine(self, first: Tensor, second: Tensor) -> Tensor:
        """Phi from the two spectra, float32 (..., d)."""
        return torch.fft.irfft(first * second, n=self.size)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Phi(x, y), float32 (..., d): an unbiased sketch of the outer product."""
        convolved: Tensor = _CircularConvolution.apply(self.first(first), self.second(second))
        return convolved


def signed_root(values: Tensor) -> Tensor:
    """sign(x) sqrt(|x|) with unit L2 norm along the last axis."""
    sizes = values.abs() + _EPSILON
    # The squares of the roots are the sizes, so the norm costs no further pass over the roots.
    return values * (sizes * sizes.sum(dim=-1, keepdim=True)).rsqrt()


class MCB(VQANetwork):
    """Two poolings: one scores the places, one answers. The grid has unit norm as a whole.

    Other than the paper's: the glimpses have no bias, which softmax would not see; the layers
    behind the sketches start with larger weights. Here each place is normalised by itself;
    whether the published attention normalised all places at once is not known.

    Args:
        num_words: Size of the vocabulary, specials included.
        num_answers: K.
        feature_sizes: The name of one spatial feature, and its channels.
        question_encoder: Called with num_words.
        size: d of the sketches.
        attention_size: Another d for the sketches of the attention, one of each place; None: size.
        hidden_size: Between the attention's two 1x1 convolutions.
        num_glimpses: Attention maps.
        dropout: Behind the poolings.
        pool: pool x pool places of the grid become one; the paper has 1.
        standardise: Whether channels first get mean 0 and variance 1, as what all places of
            rectified features share would fill the sketch; the paper does not.
        attention_root: Whether the attention's pooled vectors get a signed root before their unit
            norm, as in the paper.
    """

    def __init__(
        self,
        *,
        num_words: int,
        num_answers: int,
        feature_sizes: Mapping[str, int],
        question_encoder: Callable[..., QuestionEncoder] = StackedLSTMEncoder,
        size: Count = 16000,
        attention_size: Count | None = None,
        hidden_size: Count = 512,
        num_glimpses: Count = 2,
        dropout: ShareBelowOne = 0.1,
        pool: Count = 1,
        standardise: bool = False,
        attention_root: bool = True,
    ) -> None:
        super().__init__()
        self.feature, self.feature_size = single_feature(feature_sizes, "mcb")
        self.pool = pool
        self.attention_root = attention_root
        self.standard = nn.BatchNorm1d(self.feature_size, affine=False) if standardise else None
        self.question_encoder = question_encoder(num_words=num_words)
        asked, seen = self.question_encoder.size, self.feature_size
        sketched = attention_size or size
        self.attention_pooling = CompactBilinear(first_size=asked, second_size=seen, size=sketched)
        self.hidden = nn.Linear(sketched, hidden_size)
        self.glimpses = nn.Linear(hidden_size, num_glimpses, bias=False)  # softmax sees none
        self.pooling = CompactBilinear(first_size=asked, second_size=seen * num_glimpses, size=size)
        self.output = nn.Linear(size, num_answers)
        self.dropout = nn.Dropout(dropout)
        self.dropout_places = SharedDropout(dropout)
        nn.init.xavier_uniform_(self.glimpses.weight)
        # The roots have unit norm. From weights of the usual size every place weighs the same,
        # and every answer is as likely, for long.
        nn.init.normal_(self.hidden.weight)
        nn.init.normal_(self.output.weight, std=0.1)

    def attention(self, grid: Tensor, index: Tensor, encoded: Tensor) -> Tensor:
        """Attention (B, G, L) of questions (B, d_q) over the grids (M, L, d_v) they ask about."""
        asked = self.attention_pooling.spectrum_first(encoded)  # the same at every place
        places = self.attention_pooling.spectrum_second(grid)[index]  # once an image; no gradient
        pooled = self.attention_pooling.combine(asked[:, None], places)  # (B, L, d)
        pooled = signed_root(pooled) if self.attention_root else F.normalize(pooled, dim=-1)
        hidden = self.hidden(self.dropout_places(pooled)).relu()
        return self.glimpses(hidden).float().softmax(dim=1).mT

    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Answer logits (B, K)."""
        grid = checked_grid(images, self.feature, self.feature_size, self.pool)
        if self.standard is not None:
            grid = self.standard(grid.flatten(0, 1)).view_as(grid)
        grid = F.normalize(grid.flatten(1), dim=1).view_as(grid)  # (M, L, d_v)
        encoded = self.question_encoder(question)
        weights = self.attention(grid, images.index, encoded)
        seen = products_by_image(weights.to(grid.dtype), grid.mT, images.index)  # (B, G, d_v)
        return self.output(self.dropout(signed_root(self.pooling(encoded, seen.flatten(1)))))
