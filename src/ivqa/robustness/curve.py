"""Accuracy under noise, level by level, and what follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ivqa.data.batch import ANSWER_TYPES
from ivqa.metrics import PUBLISHED_R_SCORE, RScore, interval, resampled_means


@dataclass(frozen=True)
class NoiseCurve:
    """The accuracy of every question at every level.

    accuracies: (L + 1, N) in [0, 1], level 0 is clean. answer_types: of the N questions.
    r_score: with its tolerance and limit [ROB eq. 3].
    """

    accuracies: NDArray[np.float64]
    answer_types: Sequence[str]
    r_score: RScore = PUBLISHED_R_SCORE

    @property
    def means(self) -> NDArray[np.float64]:
        """Accuracy at each level, (L + 1,)."""
        return self.accuracies.mean(axis=1)

    def metrics(self, resamples: int = 1000, seed: int = 0) -> dict[str, float]:
        """Flat figures, by name.

        partition_K/accuracy, accuracy_low, accuracy_high, and accuracy by answer type; r_score (of
        partition 1), r_score_low, r_score_high; r_score_partition_K; area: mean accuracy over the
        noisy levels as a share of the clean one; trend: Spearman's rank correlation of level and
        accuracy, -1 where every level costs more (NaN is left out). Low and high: the 95 percent
        interval of a bootstrap over questions, the same ones at all levels. Without a noisy level
        there is accuracy alone.
        """
        figures: dict[str, float] = {}
        kinds = np.array(self.answer_types)
        drawn = np.clip(resampled_means(self.accuracies, resamples, seed), 0, 1)  # (R, L + 1)
        lows, highs = interval(drawn)
        for level, accuracies in enumerate(self.accuracies):
            figures[f"partition_{level}/accuracy"] = float(accuracies.mean())
            figures[f"partition_{level}/accuracy_low"] = float(lows[level])
            figures[f"partition_{level}/accuracy_high"] = float(highs[level])
            for kind in ANSWER_TYPES:
                if (chosen := kinds == kind).any():
                    name = kind.replace("/", "_")
                    figures[f"partition_{level}/{name}"] = float(accuracies[chosen].mean())
        means = self.means
        if len(means) == 1:
            return figures
        scores = self.r_score(means[0], means[1:])
        figures["r_score"] = float(np.atleast_1d(scores)[0])
        for level, score in enumerate(np.atleast_1d(scores), start=1):
            figures[f"r_score_partition_{level}"] = float(score)
        low, high = interval(np.asarray(self.r_score(drawn[:, 0], drawn[:, 1])))
        figures["r_score_low"], figures["r_score_high"] = float(low), float(high)
        if means[0] > 0:
            figures["area"] = float(means[1:].mean() / means[0])
        if len(means) > 2 and np.ptp(means[1:]) > 0:
            trend = spearmanr(np.arange(1, len(means)), means[1:]).statistic
            figures["trend"] = float(trend)
        return figures
