"""BLEU-1 to BLEU-4 of a corpus, as the COCO caption evaluation computes them."""

from collections.abc import Sequence

import numpy as np

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
    length, closest = _lengths(corpus)
    penalty = _brevity(length, closest)
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


def _lengths(corpus: Corpus) -> tuple[int, int]:
    """Total length of the hypotheses, and of the references closest to them."""
    lengths = np.array([len(words) for words in corpus.hypotheses])
    reference = np.array([len(words) for words in corpus.references])
    distance = np.abs(reference - lengths[corpus.owner])
    order = np.lexsort((reference, distance, corpus.owner))
    owner = corpus.owner[order]
    first = np.ones(len(owner), dtype=bool)
    first[1:] = owner[1:] != owner[:-1]
    return int(lengths.sum()), int(reference[order][first].sum())


def _brevity(length: int, closest: int) -> float:
    ratio = (length + TINY) / (closest + SMALL)
    return 1.0 if ratio >= 1 else float(np.exp(1 - 1 / ratio))
