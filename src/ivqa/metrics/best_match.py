"""Oracle scores: how close the best of many questions comes to each true one [iVQA supplement]."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ivqa.metrics.bleu import bleu_scores
from ivqa.metrics.cider import CiderStatistics, cider_scores


@dataclass(frozen=True)
class Matches:
    """The scores of M (candidate, reference) pairs that belong to the same image and answer.

    Args:
        candidate: (M,) int64, which of the N candidates.
        reference: (M,) int64, which of the R references.
        cider: (M,) float64, CIDEr-D in [0, 10] of the candidate with this reference alone.
        bleu4: (M,) float64, sentence BLEU-4 in [0, 1] of the candidate with this reference alone.
        num_references: R.
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
        """Scores each candidate with each reference of its group.

        Args:
            candidates: N questions.
            groups: (N,) the group of each candidate, a place in `references`.
            references: The true questions of each group; a group may have none.
            statistics: Document frequencies of CIDEr, the same for every call that is compared.
        """
        sizes = np.array([len(own) for own in references], dtype=np.int64)
        first = np.cumsum(sizes) - sizes
        counts = sizes[groups]
        candidate = np.repeat(np.arange(len(candidates)), counts)
        within = np.arange(len(candidate)) - np.repeat(np.cumsum(counts) - counts, counts)
        reference = first[groups][candidate] + within
        total = int(sizes.sum())
        if not len(candidate):
            return cls(candidate, reference, np.zeros(0), np.zeros(0), total)
        flat = [text for own in references for text in own]
        hypotheses = [candidates[at] for at in candidate.tolist()]
        own = [[flat[at]] for at in reference.tolist()]
        cider = cider_scores(hypotheses, own, statistics)
        return cls(candidate, reference, cider, bleu_scores(hypotheses, own)[:, 3], total)

    def best_cider(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The highest CIDEr-D of each reference with the chosen candidates, (R,).

        Args:
            chosen: (N,) whether a candidate takes part. A reference without one scores 0.
        """
        return self._best(self.cider, chosen)

    def best_bleu4(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The highest BLEU-4 of each reference, (R,); the argument is that of `best_cider`."""
        return self._best(self.bleu4, chosen)

    def _best(self, scores: NDArray[np.float64], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        best = np.zeros(self.num_references)
        taken = chosen[self.candidate]
        np.maximum.at(best, self.reference[taken], scores[taken])
        return best
