"""The prior baseline: the same answer to every question."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import VQANetwork


class Prior(VQANetwork):
    """Logits b; trained, they are the log-frequencies of the answers.

    On VQA the answer is always "yes", accuracy 29.66 [Antol et al. 2015].

    Args:
        num_answers: K.
        num_words: Ignored; every network is built with it.
        feature_sizes: Ignored; every network is built with it.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        num_answers: int,
        num_words: int | None = None,
        feature_sizes: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(num_answers))

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        """Returns the same logits for each question."""
        return self.bias.expand(len(question), -1)
