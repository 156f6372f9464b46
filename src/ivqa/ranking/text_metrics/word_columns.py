"""Words of a pool by position, and words of a main question as bits, for metrics of word order."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class WordColumns:
    """Words of N questions by their position from the end, the longest question first.

    Args:
        pool: N tokenised questions.

    Attributes:
        numbers: The number of each word.
        columns: For each position t the word numbers of all questions with more than t words.
            Question n is entry n of each column that is long enough.
        lengths: Words of each question, (N,), longest first.
        order: Their rows in the pool, (N,).
    """

    def __init__(self, pool: Sequence[Sequence[str]]) -> None:
        self.numbers: dict[str, int] = {}
        numbers = self.numbers
        flat = np.array(
            [numbers.setdefault(word, len(numbers)) for words in pool for word in words],
            dtype=np.intp,
        )
        lengths = np.array([len(words) for words in pool], dtype=np.int64)
        self.order = np.argsort(-lengths, kind="stable")
        self.lengths = lengths[self.order]
        # Position of each question's last word in `flat`.
        last = np.cumsum(lengths)[self.order] - 1
        # Sorted by length, the questions with more than `place` words come first.
        self.columns = [
            flat[last[: int((lengths > place).sum())] - place]
            for place in range(int(lengths.max(initial=0)))
        ]

    def __len__(self) -> int:
        return len(self.lengths)

    def masks(self, words: Sequence[str], matches: Mapping[str, Iterable[int]]) -> NDArray[Any]:
        """The positions in a main question that each word of the pool matches, as bits.

        Args:
            matches: For a word of the main question the numbers of the pool's words that match it.

        Returns:
            (word numbers,) integers; bit t is the word at position t from the end.
        """
        masks = np.zeros(len(self.numbers), dtype=_bit_type(len(words)))
        for place, word in enumerate(reversed(words)):
            masks[list(matches.get(word, ()))] |= 1 << place
        return masks

    def in_pool_order(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sorts values (N,) in the order of `lengths` by rows of the pool."""
        ordered = np.empty_like(values)
        ordered[self.order] = values
        return ordered


def _bit_type(length: int) -> np.dtype[Any]:
    """The smallest integer type with enough bits; over 64 need Python integers, which are slow.

    >>> _bit_type(9), _bit_type(65)
    (dtype('uint16'), dtype('O'))
    """
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        if length <= np.iinfo(kind).bits:
            return np.dtype(kind)
    return np.dtype(object)


def bit_counts(bits: NDArray[Any]) -> NDArray[np.int64]:
    """The number of bits that are set in each of N unsigned or Python integers, (N,)."""
    return np.bitwise_count(bits).astype(np.int64)
