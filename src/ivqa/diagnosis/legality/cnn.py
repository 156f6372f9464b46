"""The text CNN of the legality model: the discriminator of SeqGAN [iVQA 5]."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.device import infers_on_cpu
from ivqa.errors import UserError
from ivqa.ranges import Count, Counts, ShareBelowOne
from ivqa.text.vocabulary import PAD, Tokens


class LegalityCNN(nn.Module):
    """Convolutions of several widths, max over time, a highway layer and one logit.

        c = [max_t relu(conv_w(x))_t for each width w]        (B, M), M = sum(maps)
        g = sigmoid(gate(c))
        h = g * relu(carry(c)) + (1 - g) * c                  highway layer
        logit = output(dropout(h))                            (B,)

    The default filters are those of the published code (1,720 maps).

    Args:
        num_words: Size of the question vocabulary, special tokens included.
        embedding_size: Size of the word embeddings.
        widths: Words that the filters of each convolution cover.
        maps: Number of filters of each convolution, one for each width.
        max_length: Words that are read. Longer texts are cut, shorter ones padded.
        dropout: Dropout probability before the output layer, in [0, 1).

    Raises:
        UserError: `widths` and `maps` differ in length, or a filter is wider than `max_length`.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        num_words: int,
        embedding_size: Count = 64,
        widths: Counts = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20),
        maps: Counts = (100, 200, 200, 200, 200, 100, 100, 100, 100, 100, 160, 160),
        max_length: Count = 20,
        dropout: ShareBelowOne = 0.25,
    ) -> None:
        super().__init__()
        self.check_arguments({"widths": widths, "maps": maps, "max_length": max_length})
        self.max_length = max_length
        self.embedding = nn.Embedding(num_words, embedding_size)
        self.filters = nn.ModuleList(
            nn.Conv1d(embedding_size, number, width)
            for width, number in zip(widths, maps, strict=True)
        )
        total = sum(maps)
        self.gate, self.carry = nn.Linear(total, total), nn.Linear(total, total)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(total, 1)

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Checks the arguments against each other; every command calls this before it starts.

        Raises:
            UserError: `widths` and `maps` differ in length, or a filter is wider than `max_length`.
        """
        widths, maps = arguments["widths"], arguments["maps"]
        if len(widths) != len(maps):
            raise UserError(f"{len(widths)} filter widths, but {len(maps)} numbers of maps")
        if max(widths) > arguments["max_length"]:
            raise UserError(
                f"a filter of {max(widths)} words does not fit in {arguments['max_length']}"
            )

    def forward(self, questions: Tokens) -> Tensor:
        """Computes the logit of p(legal) for each question.

        Args:
            questions: B questions, ids (B, T).

        Returns:
            (B,) float32 logits.
        """
        ids = questions.ids[:, : self.max_length]
        maxima = self._maxima_of_words(ids) if infers_on_cpu(ids.device) else self._maxima(ids)
        features = torch.cat(maxima, dim=1)  # (B, M)
        gate = self.gate(features).sigmoid()
        mixed = gate * self.carry(features).relu() + (1 - gate) * features
        return self.output(self.dropout(mixed))[:, 0]

    def _maxima(self, ids: Tensor) -> list[Tensor]:
        """max_t relu(conv_w(x))_t of each width, (B, maps)."""
        # A fixed length: the widest filter fits, and a logit does not depend on the padding of the
        # batch.
        ids = F.pad(ids, (0, self.max_length - ids.shape[1]), value=PAD)
        embedded = self.embedding(ids).transpose(1, 2)  # (B, d_e, max_length)
        return [layer(embedded).relu().amax(dim=2) for layer in self.filters]

    def _maxima_of_words(self, ids: Tensor) -> list[Tensor]:
        """The same without gradients, ten times as fast for thousands of questions.

        What a word adds to a filter depends on the word and its place in the window alone. It is
        computed once for each word of the batch, and a window is a sum of such rows.
        """
        filters: list[Any] = [*self.filters]
        # Further padding would repeat a window of padding alone.
        widest = max(layer.kernel_size[0] for layer in filters)
        ids = F.pad(ids, (0, min(self.max_length - ids.shape[1], widest)), value=PAD)
        words, numbers = ids.unique(return_inverse=True)  # (V',), (B, T) in [0, V')
        if 4 * len(words) > ids.numel():  # hardly a word comes twice
            return self._maxima(ids)
        embedded = self.embedding(words)  # (V', d_e)
        maxima = []
        for layer in filters:
            maps, _, width = layer.weight.shape  # M_w, d_e, w
            table = embedded @ layer.weight.permute(2, 1, 0)  # by place in the window: (w, V', M_w)
            rows = numbers.unfold(1, width, 1) + len(words) * torch.arange(width)  # (B, windows, w)
            windows = F.embedding_bag(rows.flatten(0, 1), table.flatten(0, 1), mode="sum")
            highest = windows.view(*rows.shape[:2], maps).amax(dim=1)
            maxima.append((highest + layer.bias).relu())  # neither changes which is the highest
        return maxima
