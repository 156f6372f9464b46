"""ROUGE-L as the COCO caption evaluation computes it."""

from collections.abc import Sequence

import numpy as np

from ivqa.metrics.ngrams import Corpus

BETA = 1.2  # recall counts a little more than precision


def rouge_l(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Mean ROUGE-L in [0, 1] (Lin 2004): F of the longest common subsequence, beta = 1.2.

    With several references precision and recall are the best over them, each by itself.
    Raises ValueError where the two sides do not match.

    >>> round(rouge_l(["what color is the star"], [["what color is the cat"]]), 3)
    0.8
    """
    corpus = Corpus.of(hypotheses, references)
    common = longest_common_subsequences(
        [corpus.hypotheses[pair] for pair in corpus.owner], corpus.references
    )
    # An empty text splits into one empty word there.
    lengths = np.array([max(len(words), 1) for words in corpus.hypotheses])
    reference = np.array([max(len(words), 1) for words in corpus.references])
    pairs = len(corpus.hypotheses)
    precision, recall = np.zeros(pairs), np.zeros(pairs)
    np.maximum.at(precision, corpus.owner, common / lengths[corpus.owner])
    np.maximum.at(recall, corpus.owner, common / reference)
    weighted = recall + BETA**2 * precision
    score = np.divide(
        (1 + BETA**2) * precision * recall, weighted, out=np.zeros(pairs), where=weighted > 0
    )
    return float(score.mean())


def longest_common_subsequences(
    first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]
) -> np.ndarray:
    """Lengths of the longest common subsequences of first[i] and second[i], (P,) int64.

    One dynamic programme for all pairs: the loops run over positions, not over pairs.
    """
    numbers: dict[str, int] = {}
    a, b = _padded(first, numbers, -1), _padded(second, numbers, -2)
    best = np.zeros((len(a), b.shape[1] + 1), dtype=np.int64)
    for i in range(a.shape[1]):
        before = best.copy()
        for j in range(b.shape[1]):
            best[:, j + 1] = np.where(
                a[:, i] == b[:, j], before[:, j] + 1, np.maximum(before[:, j + 1], best[:, j])
            )
    return best[:, -1]


def _padded(
    sentences: Sequence[Sequence[str]], numbers: dict[str, int], padding: int
) -> np.ndarray:
    """Word numbers (P, longest); the two sides are padded differently, so padding never matches."""
    width = max((len(words) for words in sentences), default=0)
    array = np.full((len(sentences), width), padding)
    for row, words in enumerate(sentences):
        array[row, : len(words)] = [numbers.setdefault(word, len(numbers)) for word in words]
    return array
