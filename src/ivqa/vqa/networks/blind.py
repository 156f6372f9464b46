"""Blind baselines, which do not see the image: the prior of the answers, and the question alone."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import VQANetwork
from ivqa.vqa.networks.question_encoder import QuestionEncoder, RecurrentEncoder


class Prior(VQANetwork):
    """Logits b; trained, they are the log-frequencies of the answers.

    On VQA the answer is always "yes", accuracy 29.66 [Antol et al. 2015]. num_words and
    feature_sizes, with which every network is built, are ignored.
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
        return self.bias.expand(len(question), -1)


class LanguageOnly(VQANetwork):
    """logits = W drop(tanh(W_q drop(q))).

    Args:
        num_answers: K.
        feature_sizes: Ignored; every network is built with it.
        question_encoder: Called with num_words.
        joint_size: Size of the hidden layer.
        dropout: Before each linear layer.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        num_words: int,
        num_answers: int,
        feature_sizes: Mapping[str, int] | None = None,
        question_encoder: Callable[..., QuestionEncoder] = RecurrentEncoder,
        joint_size: Count = 1024,
        dropout: ShareBelowOne = 0.5,
    ) -> None:
        super().__init__()
        self.question_encoder = question_encoder(num_words=num_words)
        self.question = nn.Linear(self.question_encoder.size, joint_size)
        self.output = nn.Linear(joint_size, num_answers)
        self.dropout = nn.Dropout(dropout)

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        encoded = self.dropout(self.question_encoder(question))
        return self.output(self.dropout(self.question(encoded).tanh()))
