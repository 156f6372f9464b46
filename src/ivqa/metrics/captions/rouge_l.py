"""ROUGE-L (Lin 2004), as the COCO caption evaluation computes it."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ivqa.metrics.captions.ngrams import Corpus

BETA = 1.2  # weight of recall relative to precision, as in the COCO evaluation


def rouge_l(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Computes the mean ROUGE-L of a corpus, in [0, 1] (Lin 2004).

        ROUGE-L = (1 + beta^2) P R / (R + beta^2 P),  P = max_r LCS(h, r) / |h|,
                                                      R = max_r LCS(h, r) / |r|

    where LCS is the length of the longest common subsequence and beta = 1.2. P and R are maximised
    over the references separately. Arguments and errors are those of `bleu`.

    Example:
        >>> round(rouge_l(["what color is the star"], [["what color is the cat"]]), 3)
        0.8
    """
    return float(rouge_l_scores(hypotheses, references).mean())


def rouge_l_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """Computes ROUGE-L of each hypothesis, (P,) float64 in [0, 1]; see `rouge_l`."""
    corpus = Corpus.of(hypotheses, references)
    common = longest_common_subsequences(
        [corpus.hypotheses[pair] for pair in corpus.owner], corpus.references
    )
    # The COCO evaluation splits an empty text into one empty word.
    lengths = np.array([max(len(words), 1) for words in corpus.hypotheses])
    reference = np.array([max(len(words), 1) for words in corpus.references])
    pairs = len(corpus.hypotheses)
    precision, recall = np.zeros(pairs), np.zeros(pairs)
    np.maximum.at(precision, corpus.owner, common / lengths[corpus.owner])
    np.maximum.at(recall, corpus.owner, common / reference)
    weighted = recall + BETA**2 * precision
    return np.divide(
        (1 + BETA**2) * precision * recall, weighted, out=np.zeros(pairs), where=weighted > 0
    )


def longest_common_subsequences(
    first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]
) -> np.ndarray:
    """Computes the lengths (P,) of longest common subsequences of P pairs of tokenised sentences.

    One dynamic program runs for all pairs at once: its loops are over positions.

    Example:
        >>> longest_common_subsequences([["a", "b", "c"]], [["a", "c"]]).tolist()
        [2]
    """
    numbers: dict[str, int] = {}
    a, b = _padded(first, numbers, -1), _padded(second, numbers, -2)
    # best[:, j]: length for the words of `first` so far and the first j words of `second`.
    best = np.zeros((len(a), b.shape[1] + 1), dtype=np.int64)
    for i in range(a.shape[1]):
        # The table's row before word i of `first`.
        before = best.copy()
        for j in range(b.shape[1]):
            best[:, j + 1] = np.where(
                a[:, i] == b[:, j], before[:, j] + 1, np.maximum(before[:, j + 1], best[:, j])
            )
    return best[:, -1]


def _padded(
    sentences: Sequence[Sequence[str]], numbers: dict[str, int], padding: int
) -> np.ndarray:
    """(P, T) word numbers. Each side has its own padding value, so padding never matches."""
    width = max((len(words) for words in sentences), default=0)
    array = np.full((len(sentences), width), padding)
    for row, words in enumerate(sentences):
        array[row, : len(words)] = [numbers.setdefault(word, len(numbers)) for word in words]
    return array
