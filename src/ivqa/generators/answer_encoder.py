"""Reading a text into a vector: the answer encoder, and the recurrence it shares."""

import torch
from torch import Tensor, nn

from ivqa.generators.decoder import word_embedding
from ivqa.text.vocabulary import Tokens


class AnswerEncoder(nn.Module):
    """a = h_T of an LSTM over the words of the answer, h_0 = c_0 = 0; an empty answer is 0.

    num_words: answer words, specials included. size: d_a, 512 in the paper. (The published code
    concatenates h_T and c_T of 256 cells instead.)
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
        """Encodings (B, d_a) of the answers (B, T)."""
        initial = torch.zeros(
            len(answer), self.size, dtype=self.embedding.weight.dtype, device=answer.ids.device
        )
        embedded = self.dropout(self.embedding(answer.ids))
        return self.dropout(last_hidden(self.lstm, embedded, answer.lengths, initial))


def last_hidden(lstm: nn.LSTM, embedded: Tensor, lengths: Tensor, initial: Tensor) -> Tensor:
    """h_T (B, d_h) at the end of each text, h_0 itself where a text is empty; c_0 = 0.

    embedded: (B, T, d_e), right-padded. lengths: (B,). initial: h_0, (B, d_h).
    A forward LSTM never sees the padding behind h_T, so nothing needs packing or sorting.
    """
    start = initial.unsqueeze(0)  # (1, B, d_h)
    outputs, _ = lstm(embedded, (start, torch.zeros_like(start)))
    states = torch.cat([initial.unsqueeze(1).to(outputs.dtype), outputs], dim=1)  # (B, T+1, d_h)
    return states[torch.arange(len(lengths), device=lengths.device), lengths]
