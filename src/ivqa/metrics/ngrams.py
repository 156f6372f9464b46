"""Counts of n-grams as sparse matrices: what BLEU, CIDEr and the diversity metrics count."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix

from ivqa.text.tokens import tokenise

NGram = tuple[str, ...]


@dataclass
class NGramIndex:
    """Numbers the n-grams of one order as they are met."""

    order: int
    numbers: dict[NGram, int] = field(default_factory=dict)

    def counts(self, sentences: Sequence[Sequence[str]]) -> csr_matrix:
        """(sentences, n-grams met so far) float64 counts; new n-grams get new columns."""
        distinct: dict[NGram, int] = {}  # the same questions are asked again and again
        rows = [distinct.setdefault(tuple(words), len(distinct)) for words in sentences]
        ends: list[int] = [0]
        columns: list[int] = []
        numbers = self.numbers
        for words in distinct:
            grams = zip(*(words[at:] for at in range(self.order)), strict=False)
            columns += [numbers.setdefault(gram, len(numbers)) for gram in grams]
            ends.append(len(columns))
        shape = (len(distinct), len(numbers))
        index = np.array(columns, dtype=np.int64)
        counted = csr_matrix((np.ones(len(index)), index, ends), shape=shape)
        counted.sum_duplicates()
        return counted[np.array(rows, dtype=np.int64)]


@dataclass(frozen=True)
class Corpus:
    """Tokenised hypotheses (P) and references (R), reference r belonging to pair owner[r]."""

    hypotheses: list[list[str]]
    references: list[list[str]]
    owner: np.ndarray

    @classmethod
    def of(cls, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> "Corpus":
        """Tokenises both sides.

        Raises ValueError as `require_pairs`.
        """
        require_pairs(hypotheses, references)
        flat = [text for texts in references for text in texts]
        words = {text: tokenise(text) for text in {*hypotheses, *flat}}
        return cls(
            [words[text] for text in hypotheses],
            [words[text] for text in flat],
            np.repeat(np.arange(len(references)), [len(texts) for texts in references]),
        )


def row_maximum(matrix: csr_matrix, owner: np.ndarray, rows: int) -> csr_matrix:
    """Element-wise maximum of the matrix's rows that have the same owner: (rows, columns)."""
    entries = matrix.tocoo()
    pairs = owner[entries.row].astype(np.int64) * matrix.shape[1] + entries.col
    order = np.lexsort((entries.data, pairs))
    pairs, data = pairs[order], entries.data[order]
    last = np.ones(len(pairs), dtype=bool)
    last[:-1] = pairs[1:] != pairs[:-1]
    kept, values = pairs[last], data[last]
    index = (kept // max(matrix.shape[1], 1), kept % max(matrix.shape[1], 1))
    return csr_matrix((values, index), shape=(rows, matrix.shape[1]))


def require_pairs(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raises ValueError unless every one of at least one hypothesis has a list of references."""
    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {len(references)} lists of references; "
            "give one list a hypothesis"
        )
    if not hypotheses:
        raise ValueError("linguistic metrics need at least one hypothesis; there is none")
    for pair, texts in enumerate(references):
        if isinstance(texts, str) or not texts:
            raise ValueError(f"pair {pair}: references must be a non-empty list, not {texts!r}")
