"""MLB: low-rank bilinear pooling with attention (Kim et al., ICLR 2017).

alpha = softmax_L(P^T (tanh(U^T q) * tanh(W^T V_n)))          (B, G, L)
f_v   = concat_g tanh(W_g sum_n alpha_gn V_n)                 (B, G d)
logits = W (tanh(W_q q) * f_v)                                (B, K)
with dropout in front of every linear map of q, V (one mask for all places) and the product.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import (
    SharedDropout,
    VQANetwork,
    checked_grid,
    products_by_image,
    repeated_unless_shared,
    single_feature,
    tanh,
)
from ivqa.vqa.question_encoder import QuestionEncoder, RecurrentEncoder


class MLB(VQANetwork):
    """Multimodal low-rank bilinear attention network.

    Other than the released code: one dropout mask for all places. The paper's question encoder
    starts as uni-skip: SkipThoughtsQuestionEncoder.

    Args:
        num_words: Size of the vocabulary, specials included.
        num_answers: K.
        feature_sizes: The name of one spatial feature, and its channels.
        question_encoder: Called with num_words.
        joint_size: d.
        num_glimpses: G, one attention map and one projection W_g each, as released.
        dropout: In front of each linear layer but that of the glimpses.
    """

    def __init__(
        self,
        *,
        num_words: int,
        num_answers: int,
        feature_sizes: Mapping[str, int],
        question_encoder: Callable[..., QuestionEncoder] = RecurrentEncoder,
        joint_size: Count = 1200,
        num_glimpses: Count = 2,
        dropout: ShareBelowOne = 0.5,
    ) -> None:
        super().__init__()
        self.feature, self.feature_size = single_feature(feature_sizes, "mlb")
        self.question_encoder = question_encoder(num_words=num_words)
        asked = self.question_encoder.size
        self.attention_question = nn.Linear(asked, joint_size)
        self.attention_image = nn.Linear(self.feature_size, joint_size)
        self.glimpses = nn.Linear(joint_size, num_glimpses)
        self.images = nn.ModuleList(
            nn.Linear(self.feature_size, joint_size) for _ in range(num_glimpses)
        )
        self.question = nn.Linear(asked, joint_size * num_glimpses)
        self.output = nn.Linear(joint_size * num_glimpses, num_answers)
        self.dropout_grid = SharedDropout(dropout)
        self.dropout = nn.Dropout(dropout)

    def attention(self, grid: Tensor, index: Tensor, encoded: Tensor) -> Tensor:
        """Attention (B, G, L) of questions (B, d_q) over the grids (M, L, d_v) they ask about."""
        grid, own = repeated_unless_shared(grid, index)
        places = tanh(self.attention_image(self.dropout_grid(grid)))
        asked = self.attention_question(self.dropout(encoded)).tanh()  # (B, d)
        # The glimpses' weights join the question first: the product (B, L, d) is never made.
        guided = asked[:, None] * self.glimpses.weight  # (B, G, d)
        scores = products_by_image(guided, places, own) + self.glimpses.bias[:, None]
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
        return self.output(self.dropout(asked * torch.cat(glimpses, dim=1)))
