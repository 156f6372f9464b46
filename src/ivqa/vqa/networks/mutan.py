"""MUTAN: a Tucker decomposition of bilinear pooling (Ben-younes et al., ICCV 2017).

q~ = tanh(W_q q)                          (B, t_q)
v~ = tanh(W_v v)                          (B, t_v)
z  = sum_r (M_r q~) * (N_r v~)            (B, t_o)
logits = W z                              (B, K)
Dropout precedes W_q, W_v and W. The products and their sum have no activation.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import OneFeatureNetwork, SharedDropout
from ivqa.vqa.networks import kernels
from ivqa.vqa.networks.question_encoder import QuestionEncoder, RecurrentEncoder


class RankSumFusion(nn.Module):
    """z = sum_r (M_r x + m_r) * (N_r y + n_r): a core tensor whose slices have rank R.

    With R = 1 and M = N = I it is the element-wise product of MLB. The sizes are those of x, y
    and z.

    Raises:
        UserError: The rank R is below 1.
    """

    def __init__(self, *, first_size: int, second_size: int, size: int, rank: int) -> None:
        super().__init__()
        if rank < 1:
            raise UserError(f"rank must be at least 1, not {rank}")
        self.rank, self.size = rank, size
        self.first = nn.Linear(first_size, rank * size)  # all M_r, m_r
        self.second = nn.Linear(second_size, rank * size)  # all N_r, n_r
        # PyTorch's initial weights shrink both factors, and their product twice as much: the
        # scores would be too small for attention to learn.
        for factor in (self.first, self.second):
            nn.init.kaiming_uniform_(factor.weight, nonlinearity="linear")

    def factor_first(self, x: Tensor) -> Tensor:
        """All M_r x + m_r, (..., R, size), of x (..., first_size)."""
        return self.first(x).unflatten(-1, (self.rank, self.size))

    def factor_second(self, y: Tensor) -> Tensor:
        """All N_r y + n_r, (..., R, size), of y (..., second_size)."""
        return self.second(y).unflatten(-1, (self.rank, self.size))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Computes z (..., size) of x (..., first_size) and y (..., second_size)."""
        return (self.factor_first(x) * self.factor_second(y)).sum(dim=-2)


class MutanNoAttention(OneFeatureNetwork):
    """MUTAN on a global feature.

    One deviation from the released code: the factors of the fusion start with larger weights. The
    paper's question encoder starts from uni-skip; that is `SkipThoughtsQuestionEncoder`.

    Args:
        question_encoder: Called with num_words.
        joint_size: t_q = t_v = t_o.
        rank: R.
        dropout: Before W_q, W_v and W.
        inputs: See `OneFeatureNetwork`; a grid is averaged.
    """

    version: ClassVar[int] = 1

    name = "mutan_noatt"

    def __init__(
        self,
        *,
        question_encoder: Callable[..., QuestionEncoder] = RecurrentEncoder,
        joint_size: Count = 360,
        rank: Count = 10,
        dropout: ShareBelowOne = 0.5,
        **inputs: Any,
    ) -> None:
        super().__init__(**inputs)
        self.question_encoder = question_encoder(num_words=self.num_words)
        self.question = nn.Linear(self.question_encoder.size, joint_size)  # W_q
        self.image = nn.Linear(self.feature_size, joint_size)  # W_v
        self.fusion = RankSumFusion(
            first_size=joint_size, second_size=joint_size, size=joint_size, rank=rank
        )
        self.output = nn.Linear(joint_size, self.num_answers)  # W
        self.dropout = nn.Dropout(dropout)

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        v = self.image(self.dropout(self.vector_of(images))).tanh()  # (M, t_v)
        v = v.index_select(0, images.index)  # v~, (B, t_v)
        q = self.question_encoder(question)  # (B, d_q)
        q = self.question(self.dropout(q)).tanh()  # q~, (B, t_q)
        z = self.fusion(q, v)  # (B, t_o)
        return self.output(self.dropout(z))


class Mutan(OneFeatureNetwork):
    """MUTAN with attention: one fusion scores the positions, a second one answers.

    Deviations from the released code: all positions share one dropout mask; in the attention, each
    summand of z has a mask instead of their sum; the factors of the fusions start with larger
    weights. The paper's question encoder starts from uni-skip; that is
    `SkipThoughtsQuestionEncoder`.

    Args:
        question_encoder: Called with num_words.
        hidden_size: Size of q~ and of each glimpse.
        fused_size: t_o.
        rank: R.
        num_glimpses: G, attention maps.
        dropout: Before each linear layer outside of the fusions.
        inputs: See `OneFeatureNetwork`.
    """

    version: ClassVar[int] = 1

    name = "mutan"
    reads_grid = True

    def __init__(
        self,
        *,
        question_encoder: Callable[..., QuestionEncoder] = RecurrentEncoder,
        hidden_size: Count = 310,
        fused_size: Count = 510,
        rank: Count = 5,
        num_glimpses: Count = 2,
        dropout: ShareBelowOne = 0.5,
        **inputs: Any,
    ) -> None:
        super().__init__(**inputs)
        self.question_encoder = question_encoder(num_words=self.num_words)
        q_size, v_size = self.question_encoder.size, self.feature_size
        self.attention_question = nn.Linear(q_size, hidden_size)  # W_q of the attention
        self.attention_image = nn.Linear(v_size, hidden_size)  # W_v of the attention
        self.attention_fusion = RankSumFusion(
            first_size=hidden_size, second_size=hidden_size, size=fused_size, rank=rank
        )
        self.glimpses = nn.Linear(fused_size, num_glimpses)  # P
        self.images = nn.ModuleList(nn.Linear(v_size, hidden_size) for _ in range(num_glimpses))
        self.question = nn.Linear(q_size, hidden_size)  # W_q
        self.fusion = RankSumFusion(
            first_size=hidden_size,
            second_size=hidden_size * num_glimpses,
            size=fused_size,
            rank=rank,
        )
        self.output = nn.Linear(fused_size, self.num_answers)  # W
        self.dropout_grid, self.dropout_fused = SharedDropout(dropout), SharedDropout(dropout)
        self.dropout = nn.Dropout(dropout)

    def attention(self, grid: Tensor, index: Tensor, q: Tensor) -> Tensor:
        """Computes the attention maps softmax_L(P^T z), z the fusion of a question and a position.

        Args:
            grid: v of M images, (M, L, d_v).
            index: Image of each question, (B,) int64.
            q: Encoded questions, (B, d_q).

        Returns:
            The maps, float32 (B, G, L); each sums to 1.
        """
        grid, index_or_none = kernels.repeat_images(grid, index)
        v = self.attention_image(self.dropout_grid(grid)).tanh()  # v~, (B or M, L, h)
        q = self.attention_question(self.dropout(q)).tanh()  # q~, (B, h)
        factors = self.attention_fusion.factor_first(q)  # M_r q~, (B, R, t_o)
        scores = kernels.fusion_scores(
            self.dropout_fused(factors),
            self.glimpses.weight,
            self.attention_fusion.second,
            v,
            index_or_none,
        )  # P^T z, (B, G, L)
        return (scores + self.glimpses.bias[:, None]).float().softmax(dim=2)

    @override
    def attention_maps(self, images: ImageBatch, question: Tokens) -> Tensor:
        grid = self.grid_of(images)  # (M, L, d_v)
        return self.attention(grid, images.index, self.question_encoder(question))

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        grid = self.grid_of(images)  # (M, L, d_v)
        q = self.question_encoder(question)  # (B, d_q)
        weights = self.attention(grid, images.index, q).to(grid.dtype)  # (B, G, L)
        attended = kernels.matmul_by_image(weights, grid, images.index)  # (B, G, d_v)
        glimpses = [
            project(self.dropout(attended[:, g])).tanh() for g, project in enumerate(self.images)
        ]
        v = torch.cat(glimpses, dim=1)  # v~, (B, G h)
        q = self.question(self.dropout(q)).tanh()  # q~, (B, h)
        z = self.fusion(q, v)  # (B, t_o)
        return self.output(self.dropout(z))
