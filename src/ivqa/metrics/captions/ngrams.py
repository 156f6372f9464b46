"""Counts of n-grams as sparse matrices, for BLEU, CIDEr and the diversity metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix

from ivqa.text.tokens import tokenise

NGram = tuple[str, ...]


@dataclass
class NGramIndex:
    """Assigns column numbers to the n-grams of one order."""

    order: int
    numbers: dict[NGram, int] = field(default_factory=dict)

    def counts(self, sentences: Sequence[Sequence[str]]) -> csr_matrix:
        """Counts the n-grams of S tokenised sentences; new n-grams get new columns.

        Returns (S, n-grams seen so far) float64 counts.

        Example:
            >>> NGramIndex(order=1).counts([["a", "b", "a"], ["b"]]).toarray().tolist()
            [[2.0, 1.0], [0.0, 1.0]]
        """
        # Each distinct sentence is counted once: generated questions repeat often.
        distinct: dict[NGram, int] = {}
        rows = [distinct.setdefault(tuple(words), len(distinct)) for words in sentences]
        ends: list[int] = [0]
        columns: list[int] = []
        numbers = self.numbers
        for words in distinct:
            # Zipping the sentence with copies shifted by 1 ... n - 1 words gives its n-grams.
            grams = zip(*(words[at:] for at in range(self.order)), strict=False)
            columns += [numbers.setdefault(gram, len(numbers)) for gram in grams]
            ends.append(len(columns))
        shape = (len(distinct), len(numbers))
        index = np.array(columns, dtype=np.int64)
        # One entry for each occurrence; sum_duplicates adds them up to counts.
        counted = csr_matrix((np.ones(len(index)), index, ends), shape=shape)
        counted.sum_duplicates()
        return counted[np.array(rows, dtype=np.int64)]


@dataclass(frozen=True)
class Corpus:
    """Tokenised hypotheses and references.

    Args:
        hypotheses: P tokenised hypotheses.
        references: R tokenised references of all hypotheses.
        owner: (R,) int64: hypothesis of each reference.
    """

    hypotheses: list[list[str]]
    references: list[list[str]]
    owner: np.ndarray
    _counted: dict[int, "Counted"] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> "Corpus":
        """Tokenises P hypotheses and their references; raises the errors of `require_pairs`."""
        require_pairs(hypotheses, references)
        flat = [text for texts in references for text in texts]
        words = {text: tokenise(text) for text in {*hypotheses, *flat}}
        return cls(
            [words[text] for text in hypotheses],
            [words[text] for text in flat],
            np.repeat(np.arange(len(references)), [len(texts) for texts in references]),
        )

    def counted(self, order: int) -> "Counted":
        """Counts the n-grams of one order once, for all metrics.

        Returns:
            The n-grams, and their counts in the hypotheses (P, n-grams) and in the references
            (R, n-grams).
        """
        if order not in self._counted:
            index = NGramIndex(order)
            hypotheses = index.counts(self.hypotheses)
            references = index.counts(self.references)
            # The references added columns for n-grams that no hypothesis has.
            hypotheses.resize(hypotheses.shape[0], references.shape[1])
            self._counted[order] = index, hypotheses, references
        return self._counted[order]


Counted = tuple[NGramIndex, csr_matrix, csr_matrix]
"""N-grams of one order, and their counts in hypotheses and references."""


def row_maximum(matrix: csr_matrix, owner: np.ndarray, rows: int) -> csr_matrix:
    """Computes the element-wise maximum of the rows with the same owner.

    Args:
        matrix: (R, columns) counts, not negative.
        owner: (R,) int64: row of the result that each row belongs to.
        rows: Number of rows of the result.

    Returns:
        (rows, columns) maxima.

    Example:
        >>> counts = csr_matrix([[1, 0], [0, 2], [3, 1]])
        >>> row_maximum(counts, np.array([0, 0, 1]), rows=2).toarray().tolist()
        [[1, 2], [3, 1]]
    """
    entries = matrix.tocoo()
    # The cell of the result that each entry belongs to.
    pairs = owner[entries.row].astype(np.int64) * matrix.shape[1] + entries.col
    # Sorted by cell of the result, then value: the last entry of each cell is its maximum.
    order = np.lexsort((entries.data, pairs))
    last = order[np.diff(pairs[order], append=-1) != 0]
    index = np.divmod(pairs[last], max(matrix.shape[1], 1))
    return csr_matrix((entries.data[last], index), shape=(rows, matrix.shape[1]))


def require_pairs(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Checks that there are hypotheses, and that each has a non-empty list of references.

    Raises:
        ValueError: There is no hypothesis, or a hypothesis has no list of references.
    """
    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {len(references)} lists of references; "
            "give one list for each hypothesis"
        )
    if not hypotheses:
        raise ValueError("caption metrics need at least one hypothesis; there is none")
    for pair, texts in enumerate(references):
        # A single text is a sequence too, of characters.
        if isinstance(texts, str) or not texts:
            raise ValueError(f"pair {pair}: references must be a non-empty list, not {texts!r}")
