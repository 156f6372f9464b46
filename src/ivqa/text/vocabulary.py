"""Words and their indices."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ivqa.text.tokens import detokenise, tokenise

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")


@dataclass(frozen=True)
class Tokens:
    """Right-padded word indices of B texts, with neither <bos> nor <eos>.

    ids: (B, T) int64, PAD beyond the length. lengths: (B,) int64, 0 <= length <= T.
    """

    ids: Tensor
    lengths: Tensor

    @property
    def mask(self) -> Tensor:
        """(B, T) bool, True where a word stands."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]

    def to(self, device: Any, **kwargs: Any) -> "Tokens":
        """The same tokens on another device."""
        return Tokens(self.ids.to(device, **kwargs), self.lengths.to(device, **kwargs))

    def select(self, rows: Tensor) -> "Tokens":
        """Tokens of the given rows (B',), in that order."""
        return Tokens(self.ids[rows], self.lengths[rows])

    def repeat_interleave(self, repeats: int) -> "Tokens":
        """Every text `repeats` times in a row: (B * repeats, T)."""
        return Tokens(
            self.ids.repeat_interleave(repeats, 0), self.lengths.repeat_interleave(repeats, 0)
        )

    def __len__(self) -> int:
        return self.ids.shape[0]


class Vocabulary:
    """Maps words to 4, 5, ... behind the four specials <pad>, <bos>, <eos>, <unk>.

    words: distinct words, most frequent first by convention.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self._index = {word: index for index, word in enumerate((*SPECIALS, *self.words))}
        if len(self._index) != len(self.words) + len(SPECIALS):
            raise ValueError("vocabulary: words must be distinct and must not be special tokens")

    @classmethod
    def build(cls, texts: Iterable[str], min_count: int = 1) -> "Vocabulary":
        """Words seen at least `min_count` times in `texts`; ties in alphabetical order."""
        counts = Counter(word for text in texts for word in tokenise(text))
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls([word for word, count in ranked if count >= min_count])

    def __len__(self) -> int:
        return len(self.words) + len(SPECIALS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def __hash__(self) -> int:
        return hash(tuple(self.words))

    def __contains__(self, word: str) -> bool:
        return word in self._index

    def encode(self, texts: Sequence[str], max_length: int | None = None) -> Tokens:
        """Tokens of `texts`.

        Unknown words become UNK; longer texts keep their first `max_length` words.
        """
        rows = [
            [self._index.get(word, UNK) for word in tokenise(text)][:max_length] for text in texts
        ]
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        width = max(int(lengths.max()) if rows else 0, 1)
        ids = torch.full((len(rows), width), PAD, dtype=torch.int64)
        for row, indices in enumerate(rows):
            ids[row, : len(indices)] = torch.tensor(indices, dtype=torch.int64)
        return Tokens(ids, lengths)

    def decode(self, tokens: Tokens) -> list[str]:
        """Questions written as VQA writes them; the inverse of `encode` up to unknown words."""
        table = (*SPECIALS, *self.words)
        ids, lengths = tokens.ids.tolist(), tokens.lengths.tolist()
        return [
            detokenise([table[index] for index in row[:length]])
            for row, length in zip(ids, lengths, strict=True)
        ]
