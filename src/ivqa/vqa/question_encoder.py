"""Question encoders trained from scratch."""

from typing import Literal

import torch
from torch import Tensor, nn

from ivqa.text.vocabulary import PAD, Tokens

_CELLS: dict[str, type[nn.LSTM] | type[nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}


class RecurrentEncoder(nn.Module):
    """q = h_T of an LSTM or GRU over the words of the question; an empty question is 0.

    num_words: vocabulary size, specials included. size: d_q. num_layers: the states of the last
    one are used. dropout: on the embeddings, one mask for all words of a question, and between
    layers.
    """

    def __init__(
        self,
        *,
        num_words: int,
        embedding_size: int = 620,
        size: int = 2400,
        cell: Literal["lstm", "gru"] = "gru",
        num_layers: int = 1,
        dropout: float = 0.25,
    ) -> None:
        super().__init__()
        if cell not in _CELLS:
            raise ValueError(f"cell must be one of {', '.join(_CELLS)}, not {cell}")
        self.size = size
        self.embedding = nn.Embedding(num_words, embedding_size, padding_idx=PAD)
        self.dropout = nn.Dropout1d(dropout)
        self.recurrence = _CELLS[cell](
            embedding_size,
            size,
            num_layers,
            batch_first=True,
            dropout=dropout if num_layers > 1 else 0.0,
        )

    def forward(self, question: Tokens) -> Tensor:
        """Encodings (B, d_q) of questions (B, T)."""
        embedded = self.embedding(question.ids)  # (B, T, d_e)
        # Dropout1d drops whole channels: of (B, d_e, T) an embedding dimension at every word.
        embedded = self.dropout(embedded.transpose(1, 2)).transpose(1, 2)
        states, _ = self.recurrence(embedded)  # (B, T, d_q); never sees the padding behind h_T
        last = (question.lengths - 1).clamp_min(0)
        found = states[torch.arange(len(last), device=last.device), last]
        return found * (question.lengths > 0)[:, None]
