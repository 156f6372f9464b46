"""Question encoders: from the words of a question to one vector."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.device import infers_on_cpu
from ivqa.errors import UserError
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.prefix_states import last_states
from ivqa.text.vocabulary import PAD, Tokens, packed
from ivqa.vqa.network import SharedDropout, recurrent_layers

_CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class QuestionEncoder(nn.Module):
    """Encodes questions as vectors.

    Subclasses are constructed with num_words, the size of the vocabulary. The shapes of their
    weights depend only on their arguments, so that a checkpoint can be loaded into them.

    Attributes:
        size: d_q, size of the vectors.
    """

    size: int

    def initialise(self, words: Sequence[str]) -> None:
        """Loads initial weights; called once before training.

        Args:
            words: The words of the vocabulary, in the order of the rows that follow the four
                special tokens.
        """

    @abstractmethod
    def forward(self, question: Tokens) -> Tensor:
        """Encodes B questions of at most T words as vectors (B, size); 0 for an empty question."""


class RecurrentEncoder(QuestionEncoder):
    """q = h_T, the last state of an LSTM or GRU over the words of the question.

    Args:
        embedding_size: d_e, size of the word embeddings.
        size: d_q.
        cell: "lstm" or "gru".
        num_layers: Layers; the states of the last one are used.
        dropout: On the embeddings, with one mask for all words of a question, and between layers.

    Raises:
        UserError: `cell` is unknown.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        num_words: int,
        embedding_size: Count = 620,
        size: Count = 2400,
        cell: Literal["lstm", "gru"] = "gru",
        num_layers: Count = 1,
        dropout: ShareBelowOne = 0.25,
    ) -> None:
        super().__init__()
        if cell not in _CELLS:
            raise UserError(f"cell must be one of {', '.join(_CELLS)}, not {cell}")
        self.size = size
        self.embedding = nn.Embedding(num_words, embedding_size, padding_idx=PAD)
        self.dropout = SharedDropout(dropout)
        self.recurrence = recurrent_layers(_CELLS[cell], embedding_size, size, num_layers, dropout)

    @override
    def forward(self, question: Tokens) -> Tensor:
        if not self.training and infers_on_cpu(question.ids.device):
            found = last_states(self.recurrence, self._embedded, question)
            return found * (question.lengths > 0)[:, None]
        embedded = self._embedded(question.ids)  # (B, T, d_e)
        if torch.is_grad_enabled():
            # The backward pass of packed sequences takes longer than that of the padding. Without
            # gradients, packing is faster: belief search with MLB takes 0.8 of the time.
            states, _ = self.recurrence(embedded)  # (B, T, d_q)
            last = (question.lengths - 1).clamp_min(0)
            found = states[torch.arange(len(last), device=last.device), last]
        else:
            _, found = self.recurrence(packed(embedded, question.lengths))
            found = (found[0] if isinstance(found, tuple) else found)[-1]  # h of the last layer
        return found * (question.lengths > 0)[:, None]

    def _embedded(self, words: Tensor) -> Tensor:
        return self.dropout(self.embedding(words))
