"""CIDEr-D (Vedantam et al. 2015); the COCO caption evaluation calls it CIDEr."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, diags

from ivqa.metrics.captions.ngrams import Corpus, NGram, NGramIndex
from ivqa.text.tokens import tokenise

SIGMA = 6.0  # of the length penalty, in words, as in the paper
FEWEST_PAIRS = 50  # fewer documents give meaningless document frequencies


@dataclass(frozen=True)
class CiderStatistics:
    """Document frequencies of n-grams, n = 1 to 4. A document is one list of references.

    Args:
        frequency: Number of documents that contain each n-gram.
        documents: Number of documents, at least 1.

    Raises:
        ValueError: `documents` is below 1.
    """

    frequency: Mapping[NGram, int]
    documents: int

    def __post_init__(self) -> None:
        if self.documents < 1:
            raise ValueError(f"CIDEr statistics need at least 1 document, not {self.documents}")

    @classmethod
    def of(cls, references: Sequence[Sequence[str]]) -> "CiderStatistics":
        """Counts the n-grams of a corpus: one list of texts for each document.

        Raises:
            ValueError: There is no document.

        Example:
            >>> CiderStatistics.of([["is it red"], ["is it", "why"]]).frequency["is", "it"]
            2
        """
        frequency: Counter[NGram] = Counter()
        for texts in references:
            sentences = [tokenise(text) for text in texts]
            frequency.update(
                {
                    tuple(words[at : at + order])
                    for words in sentences
                    for order in range(1, 5)
                    for at in range(len(words) - order + 1)
                }
            )
        return cls(frequency, len(references))


def cider(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    statistics: CiderStatistics | None = None,
) -> float:
    """Computes the mean CIDEr-D of a corpus, in [0, 10] (Vedantam et al. 2015).

        CIDEr-D(h, R) = 10 / 4 * sum_n mean_{r in R} exp(-(|h| - |r|)^2 / (2 sigma^2))
                        * min(g_n(h), g_n(r)) . g_n(r) / (||g_n(h)|| ||g_n(r)||)

    where g_n is the TF-IDF vector of the n-grams, n = 1 to 4, and sigma = 6. Hypotheses, references
    and errors are those of `bleu`.

    Args:
        statistics: Document frequencies. None counts the references themselves, as the COCO
            evaluation does; the score of a few pairs is then meaningless (0 for one pair).

    Example:
        >>> statistics = CiderStatistics.of([["is there a star"], ["what color is it"]])
        >>> round(cider(["is there a star"], [["is there a star"]], statistics), 3)
        10.0
    """
    scores = cider_scores(hypotheses, references, statistics)
    return float(scores.mean())


def cider_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    statistics: CiderStatistics | None = None,
) -> np.ndarray:
    """Computes CIDEr-D of each hypothesis, (P,) float64 in [0, 10]; see `cider`."""
    corpus = Corpus.of(hypotheses, references)
    if statistics is None and len(hypotheses) < FEWEST_PAIRS:
        warnings.warn(
            f"CIDEr of {len(hypotheses)} pairs: document frequencies of fewer than "
            f"{FEWEST_PAIRS} references say little; pass statistics of a corpus",
            stacklevel=2,
        )
    return cider_of(corpus, CiderStatistics.of(references) if statistics is None else statistics)


def cider_of(corpus: Corpus, statistics: CiderStatistics) -> np.ndarray:
    """Computes `cider_scores` of a corpus whose n-grams other metrics count too."""
    total = np.zeros(len(corpus.references))
    for order in range(1, 5):
        index, hypothesis, reference = corpus.counted(order)
        idf = diags(inverse_frequency(index, statistics))
        total += _similarity((hypothesis @ idf).tocsr(), (reference @ idf).tocsr(), corpus.owner)
    total *= length_penalty(lengths(corpus.hypotheses)[corpus.owner] - lengths(corpus.references))
    number = len(corpus.hypotheses)
    num_references = np.bincount(corpus.owner, minlength=number)
    # Mean over the references and the four orders, times 10 as in the paper.
    return 10 / 4 * np.bincount(corpus.owner, total, number) / num_references


def inverse_frequency(index: NGramIndex, statistics: CiderStatistics) -> np.ndarray:
    """Computes log(documents / document frequency) of the n-grams of an index, in its order."""
    # An n-gram that no document has counts as if one had it, as in the COCO evaluation.
    frequency = np.array([max(1, statistics.frequency.get(gram, 0)) for gram in index.numbers])
    return np.log(float(statistics.documents)) - np.log(frequency.astype(float))


def _similarity(hypothesis: csr_matrix, reference: csr_matrix, owner: np.ndarray) -> np.ndarray:
    """Clipped cosine of each reference with its hypothesis, (R,)."""
    own = hypothesis[owner]  # (R, n-grams)
    # The minimum: a repeated n-gram counts at most as often as the reference has it.
    product = np.asarray(own.minimum(reference).multiply(reference).sum(axis=1)).ravel()
    norms = row_norms(own) * row_norms(reference)
    # Norm 0 (too few words, or only n-grams of idf 0) means product 0.
    return np.divide(product, norms, out=product.copy(), where=norms > 0)


def row_norms(matrix: csr_matrix) -> np.ndarray:
    """Euclidean norms of the rows."""
    return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())


def lengths(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Lengths in bigrams, as the COCO evaluation counts them, int64."""
    return np.array([max(len(words) - 1, 0) for words in sentences], dtype=np.int64)


def length_penalty(difference: np.ndarray) -> np.ndarray:
    """exp(-(|h| - |r|)^2 / (2 sigma^2)) from differences of lengths."""
    return np.exp(-(difference**2) / (2 * SIGMA**2))
