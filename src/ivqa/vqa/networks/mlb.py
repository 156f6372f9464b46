"""MLB: low-rank bilinear pooling with attention (Kim et al., ICLR 2017).

alpha = softmax_L(P^T (tanh(U^T q) * tanh(W^T V_n)))          (B, G, L)
f_v   = concat_g tanh(W_g sum_n alpha_gn V_n)                 (B, G d)
logits = W (tanh(W_q q) * f_v)                                (B, K)
Dropout precedes every linear map of q, V (one mask for all positions) and the product.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.device import fast_tanh
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import OneFeatureNetwork, SharedDropout
from ivqa.vqa.networks import kernels
from ivqa.vqa.networks.question_encoder import QuestionEncoder, RecurrentEncoder


class MLB(OneFeatureNetwork):
    """Multimodal low-rank bilinear attention network.

    One deviation from the released code: all positions share one dropout mask. The paper's question
    encoder starts from uni-skip; that is `SkipThoughtsQuestionEncoder`.

    Args:
        question_encoder: Called with num_words.
        joint_size: d.
        num_glimpses: G, attention maps; each has its own projection W_g, as in the released code.
        dropout: Before each linear layer except the one that scores the positions.
        inputs: See `OneFeatureNetwork`.
    """

    version: ClassVar[int] = 1

    name = "mlb"
    reads_grid = True

    def __init__(
        self,
        *,
        question_encoder: Callable[..., QuestionEncoder] = RecurrentEncoder,
        joint_size: Count = 1200,
        num_glimpses: Count = 2,
        dropout: ShareBelowOne = 0.5,
        **inputs: Any,
    ) -> None:
        super().__init__(**inputs)
        self.question_encoder = question_encoder(num_words=self.num_words)
        q_size = self.question_encoder.size
        self.attention_question = nn.Linear(q_size, joint_size)  # U
        self.attention_image = nn.Linear(self.feature_size, joint_size)  # W of alpha
        self.glimpses = nn.Linear(joint_size, num_glimpses)  # P
        self.images = nn.ModuleList(  # W_g
            nn.Linear(self.feature_size, joint_size) for _ in range(num_glimpses)
        )
        self.question = nn.Linear(q_size, joint_size * num_glimpses)  # W_q
        self.output = nn.Linear(joint_size * num_glimpses, self.num_answers)  # W of the logits
        self.dropout_grid = SharedDropout(dropout)
        self.dropout = nn.Dropout(dropout)

    def attention(self, grid: Tensor, index: Tensor, q: Tensor) -> Tensor:
        """Computes the attention maps alpha, float32 (B, G, L), each of which sums to 1.

        Args:
            grid: V of M images, (M, L, d_v).
            index: Image of each question, (B,) int64.
            q: Encoded questions, (B, d_q).
        """
        grid, index_or_none = kernels.repeat_images(grid, index)
        v = fast_tanh(self.attention_image(self.dropout_grid(grid)))  # tanh(W^T V), (B or M, L, d)
        u = fast_tanh(self.attention_question(self.dropout(q)))  # tanh(U^T q), (B, d)
        # P^T (u * v) = (P * u)^T v, which needs no tensor (B, L, d) of products.
        guides = self.glimpses.weight * u[:, None]  # P * u, (B, G, d)
        scores = kernels.matmul_by_image(guides, v.mT, index_or_none)  # (B, G, L)
        return (scores + self.glimpses.bias[:, None]).float().softmax(dim=2)

    @override
    def attention_maps(self, images: ImageBatch, question: Tokens) -> Tensor:
        grid = self.grid_of(images)  # (M, L, d_v)
        return self.attention(grid, images.index, self.question_encoder(question))

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        grid = self.grid_of(images)  # V, (M, L, d_v)
        q = self.question_encoder(question)  # (B, d_q)
        alpha = self.attention(grid, images.index, q).to(grid.dtype)  # (B, G, L)
        attended = kernels.matmul_by_image(alpha, grid, images.index)  # (B, G, d_v)
        glimpses = [
            fast_tanh(project(self.dropout(attended[:, g])))
            for g, project in enumerate(self.images)
        ]
        f_v = torch.cat(glimpses, dim=1)  # (B, G d)
        f_q = fast_tanh(self.question(self.dropout(q)))  # tanh(W_q q), (B, G d)
        return self.output(self.dropout(f_q * f_v))
