"""The answer encoder, and the last LSTM state of a text, which the question encoder uses too."""

import torch
from torch import Tensor, nn

from ivqa.generators.networks.decoder import word_embedding
from ivqa.text.vocabulary import Tokens


class AnswerEncoder(nn.Module):
    """a = h_T of an LSTM over the words of the answer, h_0 = c_0 = 0; an empty answer gives 0.

    The published code concatenates h_T and c_T of 256 cells instead. `size` is d_a, 512 in the
    paper; there is dropout of the embeddings and of the encoding.
    """

    def __init__(
        self,
        *,
        num_words: int,
        embedding_size: int = 512,
        size: int = 512,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = word_embedding(num_words, embedding_size)
        self.lstm = nn.LSTM(embedding_size, size, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.size = size

    def forward(self, answer: Tokens) -> Tensor:
        """Encodes answers of T words, (B, d_a)."""
        initial = torch.zeros(
            len(answer), self.size, dtype=self.embedding.weight.dtype, device=answer.ids.device
        )
        embedded = self.dropout(self.embedding(answer.ids))  # (B, T, d_e)
        return self.dropout(last_hidden(self.lstm, embedded, answer.lengths, initial))


def last_hidden(lstm: nn.LSTM, embedded: Tensor, lengths: Tensor, initial: Tensor) -> Tensor:
    """Computes h_T at the end of each text, (B, d_h), with c_0 = 0; h_0 where a text is empty.

    A forward LSTM reads the padding only after h_T, so nothing has to be packed or sorted.

    Args:
        lstm: A batch-first LSTM of one layer.
        embedded: (B, T, d_e), padded on the right.
        lengths: (B,) int64, words of each text.
        initial: h_0, (B, d_h).
    """
    start = initial.unsqueeze(0)  # (1, B, d_h)
    outputs, _ = lstm(embedded, (start, torch.zeros_like(start)))
    # Position t is the state after t words.
    states = torch.cat([initial.unsqueeze(1).to(outputs.dtype), outputs], dim=1)  # (B, T+1, d_h)
    return states[torch.arange(len(lengths), device=lengths.device), lengths]
