"""CIDEr-D as the COCO caption evaluation computes it (under the name CIDEr)."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix, diags

from ivqa.metrics.ngrams import Corpus, NGram, NGramIndex
from ivqa.text.tokens import tokenise

SIGMA = 6.0
FEWEST_PAIRS = 50


@dataclass(frozen=True)
class CiderStatistics:
    """In how many of `documents` sets of references each n-gram (n = 1..4) occurs."""

    frequency: Mapping[NGram, int]
    documents: int

    def __post_init__(self) -> None:
        if self.documents < 1:
            raise ValueError(f"CIDEr statistics need at least 1 document, not {self.documents}")

    @classmethod
    def of(cls, references: Sequence[Sequence[str]]) -> "CiderStatistics":
        """Statistics of a corpus, one list of references a document."""
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
    """Mean CIDEr-D in [0, 10] (Vedantam et al. 2015): n = 1..4, sigma = 6.

    statistics: document frequencies; by default those of the references themselves, as in the
    COCO evaluation, which makes the score of a few pairs meaningless (of one pair: 0).
    Raises ValueError where the two sides do not match.
    """
    scores = cider_scores(hypotheses, references, statistics)
    return float(scores.mean())


def cider_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    statistics: CiderStatistics | None = None,
) -> np.ndarray:
    """CIDEr-D of every pair, (P,); see `cider`."""
    corpus = Corpus.of(hypotheses, references)
    if statistics is None and len(hypotheses) < FEWEST_PAIRS:
        warnings.warn(
            f"CIDEr of {len(hypotheses)} pairs: document frequencies of fewer than "
            f"{FEWEST_PAIRS} references say little; pass statistics of a corpus",
            stacklevel=2,
        )
    statistics = CiderStatistics.of(references) if statistics is None else statistics
    total = np.zeros(len(corpus.references))
    for order in range(1, 5):
        index = NGramIndex(order)
        guessed = index.counts(corpus.hypotheses)
        wanted = index.counts(corpus.references)
        guessed.resize(guessed.shape[0], wanted.shape[1])
        weight = diags(_inverse_frequency(index, statistics))
        total += _similarity((guessed @ weight).tocsr(), (wanted @ weight).tocsr(), corpus.owner)
    total *= _length_penalty(corpus)
    references_of = np.bincount(corpus.owner, minlength=len(hypotheses))
    return 10 / 4 * np.bincount(corpus.owner, total, len(hypotheses)) / references_of


def _inverse_frequency(index: NGramIndex, statistics: CiderStatistics) -> np.ndarray:
    """log(documents / document frequency) of every n-gram, in the order of the index."""
    frequency = np.array([max(1, statistics.frequency.get(gram, 0)) for gram in index.numbers])
    return np.log(float(statistics.documents)) - np.log(frequency.astype(float))


def _similarity(guessed: csr_matrix, wanted: csr_matrix, owner: np.ndarray) -> np.ndarray:
    """Clipped cosine of every reference with its hypothesis, (R,)."""
    mine = guessed[owner]
    # Clipping keeps a repeated n-gram from counting more often than the reference has it.
    product = np.asarray(mine.minimum(wanted).multiply(wanted).sum(axis=1)).ravel()
    norms = _norm(mine) * _norm(wanted)
    return np.divide(product, norms, out=product.copy(), where=norms > 0)


def _norm(matrix: csr_matrix) -> np.ndarray:
    return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())


def _length_penalty(corpus: Corpus) -> np.ndarray:
    """exp(-difference^2 / 2 sigma^2); lengths are counted in bigrams there."""
    mine = np.array([max(len(words) - 1, 0) for words in corpus.hypotheses])[corpus.owner]
    theirs = np.array([max(len(words) - 1, 0) for words in corpus.references])
    return np.exp(-((mine - theirs) ** 2) / (2 * SIGMA**2))
