"""The networks that train skip-thought vectors: an encoder and its decoders.

The encoding h of a question is trained to predict the words of its neighbours (Kiros et al.,
NeurIPS 2015): a GRU for each neighbour reads w_t + C h and predicts w_{t+1}. The paper's decoder
has one matrix for each gate (C_r, C_u, C); here they are one.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.encoders.skip_thoughts import last_states
from ivqa.errors import UserError
from ivqa.ranges import Count, EvenCount
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens, packed


class Decoder(nn.Module):
    """Predicts each word of a text from the words before it and from a vector.

    Only the `num_predicted` most frequent words are predicted; the target of others is <unk>.
    """

    def __init__(
        self, *, embedding_size: int, condition_size: int, size: int, num_predicted: int
    ) -> None:
        super().__init__()
        self.condition = nn.Linear(condition_size, embedding_size, bias=False)
        self.gru = nn.GRU(embedding_size, size, batch_first=True)
        self.output = nn.Linear(size, num_predicted)
        self.num_predicted = num_predicted

    def forward(self, embedding: nn.Embedding, condition: Tensor, text: Tokens) -> Tensor:
        """Computes the losses of all words and of <eos>.

        Args:
            embedding: The word embedding, shared with the encoder.
            condition: (B, d).
            text: (B, T) words to predict.

        Returns:
            -log p of each word and each <eos>, (n,) float32 in packed order, where n is the number
            of words plus B.
        """
        # The input is <bos> w_1 ... w_T, the target w_1 ... w_T <eos>.
        given = F.pad(text.ids, (1, 0), value=BOS)  # (B, T + 1)
        wanted = F.pad(text.ids, (0, 1), value=PAD).scatter(1, text.lengths[:, None], EOS)
        # Words are numbered by falling frequency, so the rare ones have the high numbers.
        wanted = wanted.where(wanted < self.num_predicted, UNK)
        inputs = embedding(given) + self.condition(condition)[:, None]  # (B, T + 1, d_e)
        lengths = text.lengths + 1
        # Packed in the same order, inputs and targets need no mask for the padding.
        states, *_ = self.gru(packed(inputs, lengths))
        target = packed(wanted, lengths)
        return F.cross_entropy(self.output(states.data).float(), target.data, reduction="none")


class SkipThoughtsNetwork(nn.Module):
    """An encoder and its training decoders, which share one word embedding.

    Args:
        num_words: Size of the vocabulary with its special tokens.
        tasks: Names of the decoders.
        bidirectional: Whether half of the encoding comes from a backward GRU.
        embedding_size: d_e, dimensions of a word embedding.
        size: d, dimensions of an encoding; even.
        decoder_size: Dimensions of the decoders' GRUs.
        num_predicted: See `Decoder`.

    Raises:
        UserError: `size` is odd.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        num_words: int,
        tasks: Iterable[str],
        bidirectional: bool,
        embedding_size: Count = 620,
        size: EvenCount = 2400,
        decoder_size: Count = 2400,
        num_predicted: Count = 20000,
    ) -> None:
        super().__init__()
        if size % 2:
            raise UserError(f"each direction gives half of the encoding: size={size} must be even")
        self.embedding = nn.Embedding(num_words, embedding_size, padding_idx=PAD)
        directed = size // 2 if bidirectional else size
        self.gru = nn.GRU(embedding_size, directed, batch_first=True, bidirectional=bidirectional)
        self.decoders = nn.ModuleDict(
            {
                task: Decoder(
                    embedding_size=embedding_size,
                    condition_size=size,
                    size=decoder_size,
                    num_predicted=min(num_predicted, num_words),
                )
                for task in tasks
            }
        )

    def encode(self, text: Tokens) -> Tensor:
        """Encodes questions (B, T) as vectors (B, d)."""
        return last_states(self.gru, self.embedding(text.ids), text.lengths)

    def forward(self, text: Tokens, wanted: Mapping[str, tuple[Tensor, Tokens]]) -> dict:
        """Computes the losses of words of each task, see `Decoder.forward`.

        `wanted` has for each task rows of `text`, (B',), and the texts to predict from their
        encodings, (B', T').
        """
        encoded = self.encode(text)
        return {
            task: self.decoders[task](self.embedding, encoded[rows], target)
            for task, (rows, target) in wanted.items()
        }
