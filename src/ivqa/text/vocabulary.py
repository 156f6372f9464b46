"""Vocabularies, and texts as padded word indices."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from ivqa.text.tokens import detokenise, tokenise

# Trained weights depend on this order: the index is the row of a word embedding.
PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")


@dataclass(frozen=True)
class Tokens:
    """Right-padded word indices of B texts, without <bos> and <eos>.

    Args:
        ids: Word indices, (B, T) int64; PAD beyond the length.
        lengths: Numbers of words, (B,) int64 in [0, T].
    """

    ids: Tensor
    lengths: Tensor

    @property
    def mask(self) -> Tensor:
        """Mask of the words, (B, T) bool: True for a word, False for padding."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]

    def to(self, device: Any, **kwargs: Any) -> "Tokens":
        """Returns the tokens on another device; the arguments are those of `Tensor.to`."""
        return Tokens(self.ids.to(device, **kwargs), self.lengths.to(device, **kwargs))

    def select(self, rows: Tensor) -> "Tokens":
        """Returns the texts `rows` (B',) in that order."""
        return Tokens(self.ids[rows], self.lengths[rows])

    def repeat_interleave(self, repeats: int) -> "Tokens":
        """Repeats every text `repeats` times in a row: (B * repeats, T)."""
        return Tokens(
            self.ids.repeat_interleave(repeats, 0), self.lengths.repeat_interleave(repeats, 0)
        )

    def __len__(self) -> int:
        return self.ids.shape[0]


def trim_tokens(tokens: Tokens, max_length: int | None = None) -> Tokens:
    """Removes padding behind the longest of N texts, of which the first `max_length` words stay.

    One position stays at least.
    """
    longest = int(tokens.lengths.max()) if len(tokens) else 0
    width = max(longest if max_length is None else min(longest, max_length), 1)
    return Tokens(tokens.ids[:, :width], tokens.lengths.clamp_max(width))


def padded(rows: Sequence[Sequence[int]]) -> Tokens:
    """Builds texts from rows of indices; at least one position, as recurrent layers need."""
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    width = max(int(lengths.max()) if rows else 0, 1)
    tokens = Tokens(torch.full((len(rows), width), PAD, dtype=torch.int64), lengths)
    words = [index for row in rows for index in row]
    tokens.ids[tokens.mask] = torch.tensor(words, dtype=torch.int64)
    return tokens


def packed(embedded: Tensor, lengths: Tensor) -> PackedSequence:
    """Packs texts (B, T, d) of given lengths (B,) for a recurrent layer.

    Packing refuses length 0: of an empty text, the layer reads one word of padding.
    """
    lengths = lengths.clamp_min(1).cpu()
    return pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)


class Vocabulary:
    """Maps words to the indices 4, 5, ...; 0 to 3 are <pad>, <bos>, <eos> and <unk>.

    Args:
        words: Distinct words, most frequent first by convention.

    Raises:
        ValueError: A word occurs twice or is a special token.

    Example:
        >>> vocabulary = Vocabulary.build(["Is it red?", "Is it?"])
        >>> vocabulary.encode(["Is it blue?"]).ids.tolist()  # 3 stands for an unknown word
        [[4, 5, 3]]
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self._index = {word: index for index, word in enumerate((*SPECIALS, *self.words))}
        # From the words of the vocabulary that was read last to those of this one.
        self._table: tuple[Vocabulary, Tensor] | None = None
        if len(self._index) != len(self.words) + len(SPECIALS):
            raise ValueError("vocabulary: words must be distinct and must not be special tokens")

    @classmethod
    def build(cls, texts: Iterable[str], min_count: int = 1) -> "Vocabulary":
        """Builds the vocabulary of texts, most frequent words first, ties in alphabetical order.

        Words that occur less than `min_count` times are left out.
        """
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
        """Converts B texts to word indices (B, T); unknown words become UNK.

        T is the length of the longest text, at least 1. Texts keep their first `max_length` words.
        `DecodedTexts` stay on their device, and no text is read.
        """
        if isinstance(texts, DecodedTexts):
            return trim_tokens(self._translated(texts), max_length)
        rows = [
            [self._index.get(word, UNK) for word in tokenise(text)][:max_length] for text in texts
        ]
        return padded(rows)

    def decode(self, tokens: Tokens) -> Sequence[str]:
        """Converts word indices to questions, see `detokenise`; unknown words become "<unk>"."""
        texts = DecodedTexts(self, tokens)
        return texts if self._is_read_as_written else list(texts)

    @cached_property
    def _is_read_as_written(self) -> bool:
        """Whether `tokenise` finds in a question the words that `detokenise` wrote.

        It does for words that `tokenise` found, save a few such as the Greek final sigma.
        """
        return all(tokenise(detokenise([word])) == [word] for word in self.words)

    def _translated(self, texts: "DecodedTexts") -> Tokens:
        """The words of texts that another vocabulary wrote."""
        written, tokens = texts.vocabulary, texts.tokens
        if written is self or written == self:
            return tokens
        if self._table is None or self._table[0] is not written:
            words = ("bos", "eos", "unk", *written.words)  # as `tokenise` reads them
            table = [PAD, *(self._index.get(word, UNK) for word in words)]
            self._table = written, torch.tensor(table)
        return Tokens(self._table[1].to(tokens.ids.device)[tokens.ids], tokens.lengths)


class DecodedTexts(Sequence[str]):
    """N questions that are word indices until somebody reads their texts.

    A model with a vocabulary encodes them without reading them (`Vocabulary.encode`), so that on a
    GPU they never leave it.

    Args:
        vocabulary: The vocabulary of the words, which all survive `tokenise`.
        tokens: (N, T) words, without special tokens.
    """

    def __init__(self, vocabulary: Vocabulary, tokens: Tokens) -> None:
        self.vocabulary, self.tokens = vocabulary, tokens

    @cached_property
    def _texts(self) -> list[str]:
        table = (*SPECIALS, *self.vocabulary.words)
        ids, lengths = self.tokens.ids.tolist(), self.tokens.lengths.tolist()
        return [
            detokenise([table[index] for index in row[:length]])
            for row, length in zip(ids, lengths, strict=True)
        ]

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        return self._texts[row]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._texts == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return repr(self._texts)
