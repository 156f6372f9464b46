"""The blindest baseline: the same answer to every question."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import VQANetwork


class Prior(VQANetwork):
    """Logits b, the log-frequencies of the answers once trained: "yes" on VQA (29.66 [Antol 2015]).

    num_words and feature_sizes are taken, as every network's factory passes them, and not used.
    """

    def __init__(
        self,
        *,
        num_answers: int,
        num_words: int | None = None,
        feature_sizes: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(num_answers))

    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """The bias for each of the B questions, (B, K)."""
        return self.bias.expand(len(question), -1)
