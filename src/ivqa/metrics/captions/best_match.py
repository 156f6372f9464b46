"""Oracle scores: the best match of each reference question among many [iVQA supplement]."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ivqa.metrics.captions.bleu import bleu_of
from ivqa.metrics.captions.cider import CiderStatistics, cider_of
from ivqa.metrics.captions.ngrams import Corpus


@dataclass(frozen=True)
class Matches:
    """Scores of the M (candidate, reference) pairs that share an image and an answer.

    The oracle score of a reference r is the maximum of score(q, r) over the chosen candidates q of
    its group; the mean over references is O-C (CIDEr-D) or O-B4 (BLEU-4) of the paper.

    Args:
        candidate: (M,) int64: index of the candidate, below N.
        reference: (M,) int64: index of the reference, below R.
        cider: (M,) float64: CIDEr-D in [0, 10] of the candidate against this reference only.
        bleu4: (M,) float64: sentence BLEU-4 in [0, 1] of the candidate against this reference only.

    Example:
        >>> statistics = CiderStatistics.of([["is it red"], ["what is it"]])
        >>> questions, groups = ["is it red", "why"], np.array([0, 0])
        >>> matches = Matches.of(questions, groups, [["is it red"]], statistics)
        >>> matches.best_cider(np.array([True, False])).round(3).tolist()
        [7.5]
    """

    candidate: NDArray[np.int64]
    reference: NDArray[np.int64]
    cider: NDArray[np.float64]
    bleu4: NDArray[np.float64]
    num_references: int

    @classmethod
    def of(
        cls,
        candidates: Sequence[str],
        groups: NDArray[np.int64],
        references: Sequence[Sequence[str]],
        statistics: CiderStatistics,
    ) -> "Matches":
        """Scores each of N candidates against each reference of its group.

        Args:
            candidates: N questions.
            groups: (N,) int64: group of each candidate, an index into `references`.
            references: Reference questions of each group; a group may have none.
            statistics: Document frequencies of CIDEr. Scores are comparable only if they use the
                same statistics.
        """
        sizes = np.array([len(own) for own in references], dtype=np.int64)
        first = np.cumsum(sizes) - sizes  # index of the first reference of each group
        counts = sizes[groups]
        candidate = np.repeat(np.arange(len(candidates)), counts)
        # Number of the reference inside its group, (M,).
        within = np.arange(len(candidate)) - np.repeat(np.cumsum(counts) - counts, counts)
        reference = first[groups][candidate] + within
        total = int(sizes.sum())
        if not len(candidate):
            return cls(candidate, reference, np.zeros(0), np.zeros(0), total)
        flat = [text for own in references for text in own]
        hypotheses = [candidates[at] for at in candidate.tolist()]
        own = [[flat[at]] for at in reference.tolist()]
        corpus = Corpus.of(hypotheses, own)
        cider = cider_of(corpus, statistics)
        return cls(candidate, reference, cider, bleu_of(corpus)[:, 3], total)

    def best_cider(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Computes the highest CIDEr-D of each reference among the candidates `chosen`, (N,) bool.

        Returns (R,) float64 in [0, 10]; 0 for a reference without a chosen candidate.
        """
        return self._best(self.cider, chosen)

    def best_bleu4(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Computes the highest BLEU-4 of each reference, (R,) in [0, 1], as `best_cider` does."""
        return self._best(self.bleu4, chosen)

    def _best(self, scores: NDArray[np.float64], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        best = np.zeros(self.num_references)
        taken = chosen[self.candidate]
        # maximum.at, because a reference occurs many times and indexing would keep the last write
        # only.
        np.maximum.at(best, self.reference[taken], scores[taken])
        return best
