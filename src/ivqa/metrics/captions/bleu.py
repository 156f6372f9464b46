"""BLEU-1 to BLEU-4 (Papineni et al. 2002), as the COCO caption evaluation computes them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from ivqa.metrics.captions.ngrams import Corpus, row_maximum

# pycocoevalcap's guards against division by zero. They change its values, so they are kept.
SMALL, TINY = 1e-9, 1e-15


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """Computes BLEU-1 to BLEU-4 of a corpus (Papineni et al. 2002).

        BLEU-n = min(1, exp(1 - r / c)) * (p_1 * ... * p_n)^(1 / n)

    where p_k is the clipped k-gram precision of the corpus, c the length of all hypotheses, and r
    the sum of the reference lengths closest to each hypothesis (of two equally close lengths the
    shorter one).

    Args:
        hypotheses: P texts.
        references: One non-empty list of texts for each hypothesis.

    Returns:
        [BLEU-1, BLEU-2, BLEU-3, BLEU-4], each in [0, 1].

    Raises:
        ValueError: There is no hypothesis, or a hypothesis has no list of references.

    Example:
        >>> scores = bleu(["what color is the star"], [["what color is the cat"]])
        >>> [round(score, 3) for score in scores]
        [0.8, 0.775, 0.737, 0.669]
    """
    corpus = Corpus.of(hypotheses, references)
    length, closest = (int(lengths.sum()) for lengths in _lengths(corpus))
    penalty = float(brevity(length, closest))
    scores, product = [], 1.0
    for order in range(1, 5):
        counts, clipped = _counts(corpus, order)
        product *= (clipped.sum() + TINY) / (counts.sum() + SMALL)
        # The geometric mean of p_1 ... p_order.
        scores.append(float(product ** (1 / order) * penalty))
    return scores


def bleu_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """Computes BLEU-1 to BLEU-4 of each sentence, (P, 4) float64 in [0, 1].

    The formula is that of `bleu`, with the counts and lengths of one hypothesis. Arguments and
    errors are those of `bleu`, too.

    Example:
        >>> bleu_scores(["what color is the star"], [["what color is the cat"]]).round(3).tolist()
        [[0.8, 0.775, 0.737, 0.669]]
    """
    return bleu_of(Corpus.of(hypotheses, references))


def bleu_of(corpus: Corpus) -> NDArray[np.float64]:
    """Computes `bleu_scores` of a corpus whose n-grams other metrics count too."""
    lengths, closest = _lengths(corpus)
    product = np.ones(len(lengths))
    scores = []
    for order in range(1, 5):
        correct = np.asarray(_counts(corpus, order)[1].sum(axis=1)).ravel()
        # A hypothesis of L words has L - order + 1 n-grams.
        product = product * (correct + TINY) / (np.maximum(lengths - order + 1, 0) + SMALL)
        scores.append(product ** (1 / order))
    return np.stack(scores, axis=1) * brevity(lengths, closest)[:, None]


def _counts(corpus: Corpus, order: int) -> tuple[csr_matrix, csr_matrix]:
    """Counts of the hypotheses' n-grams, and these clipped to the references, (P, n-grams)."""
    _, counts, reference = corpus.counted(order)
    return counts, counts.minimum(row_maximum(reference, corpus.owner, counts.shape[0]))


def _lengths(corpus: Corpus) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lengths of the hypotheses and of the closest reference of each, (P,) int64 each."""
    lengths = np.array([len(words) for words in corpus.hypotheses])
    reference = np.array([len(words) for words in corpus.references])
    distance = np.abs(reference - lengths[corpus.owner])
    # Sorted by hypothesis, then distance, then length: the first row of each hypothesis counts.
    order = np.lexsort((reference, distance, corpus.owner))
    return lengths, reference[order][np.diff(corpus.owner[order], prepend=-1) != 0]


def brevity(length: ArrayLike, closest: ArrayLike) -> NDArray[np.float64]:
    """The brevity penalty min(1, exp(1 - r / c)) of lengths that broadcast."""
    ratio = (np.asarray(length) + TINY) / (np.asarray(closest) + SMALL)
    return np.exp(np.minimum(1 - 1 / ratio, 0))
