"""Accuracy under noise, level by level, and what follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ivqa.data.batch import ANSWER_TYPES
from ivqa.metrics import r_score


@dataclass(frozen=True)
class NoiseCurve:
    """The accuracy of every question at every level.

    accuracies: (L + 1, N) in [0, 1], level 0 is clean. answer_types: of the N questions.
    tolerated, hopeless: t and m of R_score [ROB eq. 3].
    """

    accuracies: NDArray[np.float64]
    answer_types: Sequence[str]
    tolerated: float = 5e-4
    hopeless: float = 0.2

    @property
    def means(self) -> NDArray[np.float64]:
        """Accuracy at each level, (L + 1,)."""
        return self.accuracies.mean(axis=1)

    def metrics(self, resamples: int = 1000, seed: int = 0) -> dict[str, float]:
        """Flat figures, by name.

        partition_K/accuracy and by answer type; r_score (of partition 1) with the 95 percent
        interval of a bootstrap over questions, the same ones at all levels; r_score_partition_K;
        area: mean accuracy over the noisy levels as a share of the clean one; trend: Spearman's
        rank correlation of level and accuracy, -1 where every level costs more (NaN is left out).
        """
        figures: dict[str, float] = {}
        kinds = np.array(self.answer_types)
        for level, accuracies in enumerate(self.accuracies):
            figures[f"partition_{level}/accuracy"] = float(accuracies.mean())
            for kind in ANSWER_TYPES:
                if (chosen := kinds == kind).any():
                    name = kind.replace("/", "_")
                    figures[f"partition_{level}/{name}"] = float(accuracies[chosen].mean())
        means = self.means
        scores = r_score(means[0], means[1:], self.tolerated, self.hopeless)
        figures["r_score"] = float(np.atleast_1d(scores)[0])
        for level, score in enumerate(np.atleast_1d(scores), start=1):
            figures[f"r_score_partition_{level}"] = float(score)
        low, high = self.interval(resamples, seed)
        figures["r_score_low"], figures["r_score_high"] = low, high
        if means[0] > 0:
            figures["area"] = float(means[1:].mean() / means[0])
        if len(means) > 2 and np.ptp(means[1:]) > 0:
            trend = spearmanr(np.arange(1, len(means)), means[1:]).statistic
            figures["trend"] = float(trend)
        return figures

    def interval(self, resamples: int, seed: int) -> tuple[float, float]:
        """The 2.5 and 97.5 percent quantiles of R_score over questions drawn with replacement."""
        size = self.accuracies.shape[1]
        rng = np.random.default_rng(seed)
        # How often each question is drawn: the mean over a resample is one product.
        counts = rng.multinomial(size, np.full(size, 1 / size), size=resamples)
        drawn = np.clip(counts @ self.accuracies[:2].T / size, 0, 1)
        scores = r_score(drawn[:, 0], drawn[:, 1], self.tolerated, self.hopeless)
        low, high = np.quantile(scores, [0.025, 0.975])
        return float(low), float(high)
