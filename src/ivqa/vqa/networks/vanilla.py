"""Vanilla: a question vector times a global image vector [iVQA 5; Antol et al. 2015]."""

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens
from ivqa.vqa.network import OneFeatureNetwork
from ivqa.vqa.networks.question_encoder import QuestionEncoder, RecurrentEncoder


class Vanilla(OneFeatureNetwork):
    """a = tanh(W_q drop(q)), b = tanh(W_v drop(v)), logits = W drop(a * b).

    v is the global feature, or the mean of a grid, with unit L2 norm ("norm I"). The code of the
    network was not published. The belief-set code shows joint embeddings of size 1024, dropout 0.5,
    and a skip-thought vector or a recurrent network that reads the question.

    Args:
        question_encoder: Called with num_words; the default is a GRU of uni-skip's size.
        joint_size: Size of a and b.
        dropout: Before each linear layer.
        inputs: See `OneFeatureNetwork`; a grid is averaged.
    """

    version: ClassVar[int] = 1

    name = "vanilla"

    def __init__(
        self,
        *,
        question_encoder: Callable[..., QuestionEncoder] = RecurrentEncoder,
        joint_size: Count = 1024,
        dropout: ShareBelowOne = 0.5,
        **inputs: Any,
    ) -> None:
        super().__init__(**inputs)
        self.question_encoder = question_encoder(num_words=self.num_words)
        self.question = nn.Linear(self.question_encoder.size, joint_size)  # W_q
        self.image = nn.Linear(self.feature_size, joint_size)  # W_v
        # v has length 1: with PyTorch's initial weights b, and so the product, would be near 0.
        nn.init.normal_(self.image.weight)
        self.output = nn.Linear(joint_size, self.num_answers)  # W
        self.dropout = nn.Dropout(dropout)

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        v = F.normalize(self.vector_of(images), dim=1)  # (M, d_v)
        b = self.image(self.dropout(v)).tanh().index_select(0, images.index)  # (B, d)
        q = self.question_encoder(question)  # (B, d_q)
        a = self.question(self.dropout(q)).tanh()  # (B, d)
        return self.output(self.dropout(a * b))
