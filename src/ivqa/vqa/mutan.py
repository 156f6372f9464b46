"""MUTAN: a Tucker decomposition of bilinear pooling (Ben-younes et al., ICCV 2017).

q~ = tanh(W_q q),  v~ = tanh(W_v v),  z = sum_r (M_r q~) * (N_r v~),  logits = W z
with dropout in front of W_q, W_v and W; the products and the sum have no activation.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import (
    SharedDropout,
    VQANetwork,
    checked_feature,
    checked_grid,
    products_by_image,
    repeated_unless_shared,
    single_feature,
    tanh,
)
from ivqa.vqa.question_encoder import QuestionEncoder, RecurrentEncoder


class RankSumFusion(nn.Module):
    """z = sum_r (M_r x + m_r) * (N_r y + n_r): a core tensor whose slices have rank R.

    With R = 1 and M = N = I it is the element-wise product of MLB.
    """

    def __init__(self, *, first_size: int, second_size: int, size: int, rank: int) -> None:
        super().__init__()
        if rank < 1:
            raise UserError(f"rank must be at least 1, not {rank}")
        self.rank, self.size = rank, size
        self.first = nn.Linear(first_size, rank * size)
        self.second = nn.Linear(second_size, rank * size)
        # Products of what torch's own start shrinks twice say too little for attention to learn.
        for factor in (self.first, self.second):
            nn.init.kaiming_uniform_(factor.weight, nonlinearity="linear")

    def factor_first(self, values: Tensor) -> Tensor:
        """All M_r x + m_r, (..., R, size)."""
        return self.first(values).unflatten(-1, (self.rank, self.size))

    def factor_second(self, values: Tensor) -> Tensor:
        """All N_r y + n_r, (..., R, size)."""
        return self.second(values).unflatten(-1, (self.rank, self.size))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """The fusion (..., size) of (..., first_size) and (..., second_size)."""
        return (self.factor_first(first) * self.factor_second(second)).sum(dim=-2)


class MutanNoAttention(VQANetwork):
    """MUTAN on a global feature.

    The paper's question encoder starts as uni-skip: SkipThoughtsQuestionEncoder. The factors of
    the fusion start with larger weights than the released code's.

    Args:
        num_words: Size of the vocabulary, specials included.
        num_answers: K.
        feature_sizes: The name of one feature, and its size; a grid is averaged.
        question_encoder: Called with num_words.
        joint_size: t_q = t_v = t_o.
        rank: R.
        dropout: In front of W_q, W_v and W.
    """

    def __init__(
        self,
        *,
        num_words: int,
        num_answers: int,
        feature_sizes: Mapping[str, int],
        question_encoder: Callable[..., QuestionEncoder] = RecurrentEncoder,
        joint_size: Count = 360,
        rank: Count = 10,
        dropout: ShareBelowOne = 0.5,
    ) -> None:
        super().__init__()
        self.feature, self.feature_size = single_feature(feature_sizes, "mutan_noatt")
        self.question_encoder = question_encoder(num_words=num_words)
        self.question = nn.Linear(self.question_encoder.size, joint_size)
        self.image = nn.Linear(self.feature_size, joint_size)
        self.fusion = RankSumFusion(
            first_size=joint_size, second_size=joint_size, size=joint_size, rank=rank
        )
        self.output = nn.Linear(joint_size, num_answers)
        self.dropout = nn.Dropout(dropout)

    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Answer logits (B, K)."""
        seen = checked_feature(images, self.feature, self.feature_size)
        pooled = seen.mean(dim=1) if seen.dim() == 3 else seen
        image = self.image(self.dropout(pooled)).tanh().index_select(0, images.index)
        asked = self.question(self.dropout(self.question_encoder(question))).tanh()
        return self.output(self.dropout(self.fusion(asked, image)))


class Mutan(VQANetwork):
    """MUTAN with attention: one fusion scores the places, a second one answers.

    Other than the released code: one dropout mask for all places, and, in the attention, of each
    summand of z instead of their sum. As MutanNoAttention otherwise.

    Args:
        num_words: Size of the vocabulary, specials included.
        num_answers: K.
        feature_sizes: The name of one spatial feature, and its channels.
        question_encoder: Called with num_words.
        hidden_size: Of q~ and of each glimpse.
        fused_size: t_o.
        rank: R.
        num_glimpses: Attention maps.
        dropout: In front of each linear layer outside of the fusions.
    """

    def __init__(
        self,
        *,
        num_words: int,
        num_answers: int,
        feature_sizes: Mapping[str, int],
        question_encoder: Callable[..., QuestionEncoder] = RecurrentEncoder,
        hidden_size: Count = 310,
        fused_size: Count = 510,
        rank: Count = 5,
        num_glimpses: Count = 2,
        dropout: ShareBelowOne = 0.5,
    ) -> None:
        super().__init__()
        self.feature, self.feature_size = single_feature(feature_sizes, "mutan")
        self.question_encoder = question_encoder(num_words=num_words)
        asked, seen = self.question_encoder.size, self.feature_size
        self.attention_question = nn.Linear(asked, hidden_size)
        self.attention_image = nn.Linear(seen, hidden_size)
        self.attention_fusion = RankSumFusion(
            first_size=hidden_size, second_size=hidden_size, size=fused_size, rank=rank
        )
        self.glimpses = nn.Linear(fused_size, num_glimpses)
        self.images = nn.ModuleList(nn.Linear(seen, hidden_size) for _ in range(num_glimpses))
        self.question = nn.Linear(asked, hidden_size)
        self.fusion = RankSumFusion(
            first_size=hidden_size,
            second_size=hidden_size * num_glimpses,
            size=fused_size,
            rank=rank,
        )
        self.output = nn.Linear(fused_size, num_answers)
        self.dropout_grid, self.dropout_fused = SharedDropout(dropout), SharedDropout(dropout)
        self.dropout = nn.Dropout(dropout)

    def attention(self, grid: Tensor, index: Tensor, encoded: Tensor) -> Tensor:
        """Attention (B, G, L) of questions (B, d_q) over the grids (M, L, d_v) they ask about."""
        grid, own = repeated_unless_shared(grid, index)
        places = tanh(self.attention_image(self.dropout_grid(grid)))  # v~
        asked = self.attention_question(self.dropout(encoded)).tanh()  # q~
        # Scores are linear in v~: P z = sum_r (P * M_r q~) (N_r v~ + n_r). What is asked meets
        # N_r first, so that neither N_r v~ nor z is made for every place.
        fusion, second = self.attention_fusion, self.attention_fusion.second
        factors = self.dropout_fused(fusion.factor_first(asked))  # (B, R, t); of z, for all places
        guided = (factors[:, None] * self.glimpses.weight[:, None]).flatten(2)  # (B, G, R t)
        scores = products_by_image(guided @ second.weight, places, own)
        scores = scores + (guided @ second.bias + self.glimpses.bias)[:, :, None]
        return scores.float().softmax(dim=2)

    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Answer logits (B, K)."""
        grid = checked_grid(images, self.feature, self.feature_size)  # (M, L, d_v)
        encoded = self.question_encoder(question)  # (B, d_q)
        weights = self.attention(grid, images.index, encoded)
        seen = products_by_image(weights.to(grid.dtype), grid.mT, images.index)  # (B, G, d_v)
        glimpses = [
            project(self.dropout(seen[:, number])).tanh()
            for number, project in enumerate(self.images)
        ]
        asked = self.question(self.dropout(encoded)).tanh()
        return self.output(self.dropout(self.fusion(asked, torch.cat(glimpses, dim=1))))
