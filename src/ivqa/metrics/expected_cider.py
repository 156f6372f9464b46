"""Expected CIDEr-D, for decisions of minimum Bayes risk among generated texts."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags

from ivqa.metrics.captions.cider import (
    CiderStatistics,
    inverse_frequency,
    length_penalty,
    lengths,
)
from ivqa.metrics.captions.ngrams import NGramIndex
from ivqa.text.tokens import tokenise


def expected_cider(
    texts: Sequence[str],
    group: NDArray[np.int64],
    weights: NDArray[np.floating],
    statistics: CiderStatistics,
) -> NDArray[np.float64]:
    """Computes the expected CIDEr-D of each text, if a text of its group is the reference.

        E(h) = sum_r w_r CIDEr-D(h, r) / sum_r w_r    over the texts r of the group of h

    The text of highest expectation is the decision of minimum Bayes risk (Kumar and Byrne 2004),
    which image captioning calls the consensus caption (Devlin et al. 2015, arXiv:1505.04467).

    Args:
        texts: N texts; equal ones of a group count by the sum of their weights.
        group: (N,) the group of each text, in ascending order.
        weights: (N,) probabilities of the texts, not normalised, >= 0, not all 0 in a group.
        statistics: Document frequencies of a corpus.

    Returns:
        (N,) float64 in [0, 10].

    Raises:
        ValueError: Texts, groups and weights differ in number.

    Example:
        >>> statistics = CiderStatistics.of([["is it red"], ["is it"], ["why"]])
        >>> found = expected_cider(
        ...     ["is it red", "why", "is it red"], np.zeros(3, int), np.ones(3), statistics
        ... )
        >>> bool(found[0] > found[1]), bool(found[0] == found[2])
        (True, True)
    """
    if not len(texts) == len(group) == len(weights):
        raise ValueError(
            f"{len(texts)} texts, {len(group)} groups and {len(weights)} weights differ in number"
        )
    number = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    sentences = [tokenise(text) for text in number]
    vectors = _vectors(sentences, statistics)
    length = lengths(sentences)
    place = np.array([number[text] for text in texts], dtype=np.int64)
    result = np.zeros(len(texts))
    for rows in np.split(np.arange(len(texts)), np.flatnonzero(np.diff(group)) + 1):
        if not len(rows):
            continue
        # Equal texts of a group are compared once.
        own, back = np.unique(place[rows], return_inverse=True)
        weight = np.bincount(back, np.asarray(weights)[rows])
        penalty = length_penalty(length[own, None] - length[own])
        similarity = sum(_similarities(matrix[own]) for matrix in vectors)
        score = 10 / 4 * (penalty * similarity) @ (weight / weight.sum())
        result[rows] = score[back]
    return result


def _vectors(sentences: Sequence[Sequence[str]], statistics: CiderStatistics) -> list[csr_matrix]:
    """The TF-IDF vectors of the n-grams of each sentence, n = 1 to 4."""
    vectors = []
    for order in range(1, 5):
        index = NGramIndex(order)
        counts = index.counts(sentences)
        vectors.append((counts @ diags(inverse_frequency(index, statistics))).tocsr())
    return vectors


def _similarities(vectors: csr_matrix) -> NDArray[np.float64]:
    """Clipped cosine of each row (a hypothesis) with each row (its reference), (n, n)."""
    columns = np.unique(vectors.indices)
    dense = vectors[:, columns].toarray()  # (n, n-grams of these texts)
    # The minimum: a repeated n-gram counts at most as often as the reference has it.
    product = np.einsum("hrg,rg->hr", np.minimum(dense[:, None], dense), dense)
    norms = np.linalg.norm(dense, axis=1)
    norms = norms[:, None] * norms
    # Norm 0 (too few words, or only n-grams of idf 0) means product 0.
    return np.divide(product, norms, out=product, where=norms > 0)
