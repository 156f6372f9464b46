"""BLEU-1 to BLEU-4 of a corpus, as the COCO caption evaluation computes them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ivqa.metrics.ngrams import Corpus, NGramIndex, row_maximum

# pycocoevalcap's guards against division by zero; part of the values it prints.
SMALL, TINY = 1e-9, 1e-15


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """[BLEU-1, ..., BLEU-4] in [0, 1] (Papineni et al. 2002), over the whole corpus.

    Clipped n-gram precisions of the corpus, their geometric mean, and the brevity penalty with
    the reference length closest to each hypothesis (of two equally close ones the shorter).
    Raises ValueError where the two sides do not match.

    >>> [round(value, 3) for value in bleu(["what color is the star"], [["what color is the cat"]])]
    [0.8, 0.775, 0.737, 0.669]
    """
    corpus = Corpus.of(hypotheses, references)
    length, closest = (int(lengths.sum()) for lengths in _lengths(corpus))
    penalty = float(_brevity(length, closest))
    scores, product = [], 1.0
    for order in range(1, 5):
        index = NGramIndex(order)
        guessed = index.counts(corpus.hypotheses)
        allowed = index.counts(corpus.references)
        guessed.resize(guessed.shape[0], allowed.shape[1])
        correct = guessed.minimum(row_maximum(allowed, corpus.owner, len(corpus.hypotheses))).sum()
        product *= (correct + TINY) / (guessed.sum() + SMALL)
        scores.append(float(product ** (1 / order) * penalty))
    return scores


def bleu_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """BLEU-1 to BLEU-4 of every pair by itself, (P, 4), as the COCO evaluation prints them.

    Args:
        hypotheses: P questions.
        references: One non-empty list a hypothesis.

    Raises:
        ValueError: The two sides do not match.

    Example:
        >>> bleu_scores(["what color is the star"], [["what color is the cat"]]).round(3).tolist()
        [[0.8, 0.775, 0.737, 0.669]]
    """
    corpus = Corpus.of(hypotheses, references)
    lengths, closest = _lengths(corpus)
    product = np.ones(len(lengths))
    scores = []
    for order in range(1, 5):
        index = NGramIndex(order)
        guessed = index.counts(corpus.hypotheses)
        allowed = index.counts(corpus.references)
        guessed.resize(guessed.shape[0], allowed.shape[1])
        clipped = guessed.minimum(row_maximum(allowed, corpus.owner, len(lengths)))
        correct = np.asarray(clipped.sum(axis=1)).ravel()
        product = product * (correct + TINY) / (np.maximum(lengths - order + 1, 0) + SMALL)
        scores.append(product ** (1 / order))
    return np.stack(scores, axis=1) * _brevity(lengths, closest)[:, None]


def _lengths(corpus: Corpus) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lengths of the hypotheses, and of the reference closest to each, two (P,)."""
    lengths = np.array([len(words) for words in corpus.hypotheses])
    reference = np.array([len(words) for words in corpus.references])
    distance = np.abs(reference - lengths[corpus.owner])
    order = np.lexsort((reference, distance, corpus.owner))
    owner = corpus.owner[order]
    first = np.ones(len(owner), dtype=bool)
    first[1:] = owner[1:] != owner[:-1]
    return lengths, reference[order][first]


def _brevity(length: ArrayLike, closest: ArrayLike) -> NDArray[np.float64]:
    ratio = (np.asarray(length) + TINY) / (np.asarray(closest) + SMALL)
    return np.exp(np.minimum(1 - 1 / ratio, 0))
