"""Deeper LSTM Q + norm I (Antol et al. 2015, released code of Lu 2015).

e_t = tanh(drop(W_e w_t)), a two-layer LSTM over e, q = [c_1; h_1; c_2; h_2] at the last word,
v = I / |I|,  logits = W drop(tanh(W_q drop(q)) * tanh(W_v drop(v))).
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.ranges import Count, Positive, ShareBelowOne
from ivqa.text.vocabulary import PAD, Tokens, packed
from ivqa.vqa.network import OneFeatureNetwork, recurrent_layers


class LSTMQI(OneFeatureNetwork):
    """The released network; the paper's text has an embedding of 300 and one more layer.

    Deviations from the released code: words have no bias beside their vectors, which can represent
    it, and padding is not a word. PyTorch's LSTM has two bias vectors.

    Args:
        embedding_size: Size of e.
        hidden_size: Size of the states of each LSTM layer.
        num_layers: LSTM layers; cells and states of all layers are read.
        joint_size: Size of the product.
        dropout: On every layer.
        initializer_range: r; all parameters start in U(-r, r), biases included. None: PyTorch's
            initial values, but weights of the image in N(0, 1).
        inputs: See `OneFeatureNetwork`; a grid is averaged.
    """

    version: ClassVar[int] = 1

    name = "lstm_qi"

    def __init__(
        self,
        *,
        embedding_size: Count = 200,
        hidden_size: Count = 512,
        num_layers: Count = 2,
        joint_size: Count = 1024,
        dropout: ShareBelowOne = 0.5,
        initializer_range: Positive | None = 0.08,
        **inputs: Any,
    ) -> None:
        super().__init__(**inputs)
        self.embedding = nn.Embedding(self.num_words, embedding_size, padding_idx=PAD)
        self.lstm = recurrent_layers(nn.LSTM, embedding_size, hidden_size, num_layers, dropout)
        self.question = nn.Linear(2 * hidden_size * num_layers, joint_size)
        self.image = nn.Linear(self.feature_size, joint_size)
        self.output = nn.Linear(joint_size, self.num_answers)
        self.dropout = nn.Dropout(dropout)
        if initializer_range is None:
            nn.init.normal_(self.image.weight)  # PyTorch's are too small for unit vectors
            return
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -initializer_range, initializer_range)
        with torch.no_grad():
            self.embedding.weight[PAD].zero_()

    def encode(self, question: Tokens) -> Tensor:
        """Encodes B questions as q (B, 2 layers d_h), the cells and states of all layers.

        An empty question gives 0.
        """
        words = self.dropout(self.embedding(question.ids)).tanh()  # e, (B, T, d_e)
        _, (hidden, cell) = self.lstm(packed(words, question.lengths))  # (layers, B, d_h) each
        states = torch.stack([cell, hidden], dim=1).flatten(0, 1)  # c_1, h_1, c_2, h_2
        encoded = states.transpose(0, 1).flatten(1)  # (B, 2 layers d_h)
        return encoded * (question.lengths > 0)[:, None]

    @override
    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        v = F.normalize(self.vector_of(images), dim=1)  # I / |I|, (M, d_v)
        f_v = self.image(self.dropout(v)).tanh().index_select(0, images.index)  # (B, d)
        f_q = self.question(self.dropout(self.encode(question))).tanh()  # (B, d)
        return self.output(self.dropout(f_q * f_v))
