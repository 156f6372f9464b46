"""The curve of accuracy over the level of noise, and the figures that summarise it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ivqa.data.batches.batch import ANSWER_TYPES
from ivqa.metrics import PUBLISHED_R_SCORE, RScore, interval, resampled_means, with_ends
from ivqa.text.normalisation import normalise_answer


@dataclass(frozen=True)
class NoiseCurve:
    """The accuracy of every question at every level of noise.

    Args:
        accuracies: (L + 1, N) in [0, 1]; level 0 is without noise.
        answer_types: Answer types of the N questions.
        r_score: R_score with its tolerance and limit [ROB eq. 3].
        answers: L + 1 lists of the N answers; this and what follows is None where unknown.
        images: (N,) ids of the questions' images.
        blind: (N,) accuracies of a blind baseline.
        cut: (L + 1, N) bool, whether the model reads only the beginning of a question.
        choices: (L + 1, N) accuracies of multiple choice in [0, 1], NaN without candidates.

    Example:
        >>> curve = NoiseCurve(np.array([[1.0, 1.0], [1.0, 0.5]]), ["other", "other"])
        >>> curve.means.tolist()
        [1.0, 0.75]
        >>> curve.metrics()["area"]
        0.75
    """

    accuracies: NDArray[np.float64]
    answer_types: Sequence[str]
    r_score: RScore = PUBLISHED_R_SCORE
    answers: Sequence[Sequence[str]] | None = None
    images: NDArray[np.int64] | None = None
    blind: NDArray[np.float64] | None = None
    cut: NDArray[np.bool_] | None = None
    choices: NDArray[np.float64] | None = None

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean accuracy at each level, (L + 1,)."""
        return self.accuracies.mean(axis=1)

    def metrics(self, resamples: int = 1000, seed: int = 0) -> dict[str, float]:
        """Computes the figures of the curve.

        Args:
            resamples: Number of resamples of the bootstrap. It draws images, with the same
                questions at all levels.

        Returns:
            Figures by name; K is a level, and _low and _high are the bounds of the 95 percent
            interval of the bootstrap:

            - partition_K/accuracy, partition_K/accuracy_low, partition_K/accuracy_high, and the
              accuracy by answer type, such as partition_K/yes_no;
            - partition_K/multiple_choice: the accuracy over the questions with candidates, where
              there are some;
            - partition_K/truncated, and truncated (of level 1): the share of questions that the
              model cuts, where it is known;
            - r_score (of level 1), r_score_low, r_score_high, and r_score_partition_K;
            - acc_diff (of level 1) and partition_K/acc_diff: Acc_diff of [ROB eq. 3], the absolute
              difference from the accuracy without noise;
            - partition_K/flips: the share of changed answers of `flips`, where answers are known;
            - area: the mean accuracy over the noisy levels, divided by the one without noise;
              absent where that is 0;
            - blind_accuracy, the accuracy of the blind baseline, and below_blind: 1 where the
              accuracy without noise is not above it, so that R_score says nothing about a model
              that sees; else 0;
            - trend: Spearman's rank correlation of level and accuracy; -1 where the accuracy falls
              with every level; 0, not undefined, where all noisy levels have the same accuracy,
              so that a sweep can compare this too; absent with fewer than two noisy levels;
            - slope, slope_low, slope_high: the least-squares slope of accuracy over the noisy
              levels, per level; below 0 where the ranking orders the questions by their noise, the
              further the better, while trend is -1 for any such ranking; absent with fewer than two
              noisy levels.

            Without noisy levels there are only the accuracies.
        """
        figures: dict[str, float] = {}
        kinds = np.array(self.answer_types)
        # Rounding may leave a mean slightly outside [0, 1], which R_score refuses.
        means_drawn = resampled_means(self.accuracies, resamples, seed, self.images)
        drawn = np.clip(means_drawn, 0, 1)  # (R, L + 1)
        lows, highs = interval(drawn)
        for level, accuracies in enumerate(self.accuracies):
            name = f"partition_{level}"
            ends = lows[level], highs[level]
            figures |= with_ends(f"{name}/accuracy", accuracies.mean(), *ends)
            for kind in ANSWER_TYPES:
                if (chosen := kinds == kind).any():
                    figures[f"{name}/{kind.replace('/', '_')}"] = float(accuracies[chosen].mean())
            if self.choices is not None:
                asked = self.choices[level][~np.isnan(self.choices[level])]
                if len(asked):
                    figures[f"{name}/multiple_choice"] = float(asked.mean())
            if self.cut is not None:
                figures[f"{name}/truncated"] = float(self.cut[level].mean())
        means = self.means
        if len(means) == 1:
            return figures
        scores = np.atleast_1d(self.r_score(means[0], means[1:]))  # (L,)
        # The papers report R_score for partition 1.
        figures["r_score"] = float(scores[0])
        for level, score in enumerate(scores, start=1):
            figures[f"r_score_partition_{level}"] = float(score)
            figures[f"partition_{level}/acc_diff"] = float(abs(means[0] - means[level]))
        figures["acc_diff"] = figures["partition_1/acc_diff"]
        if self.cut is not None:
            figures["truncated"] = figures["partition_1/truncated"]
        if self.answers is not None:
            for level, share in enumerate(flips(self.answers), start=1):
                figures[f"partition_{level}/flips"] = float(share)
        samples = np.asarray(self.r_score(drawn[:, 0], drawn[:, 1]))
        figures |= with_ends("r_score", scores[0], *interval(samples))
        if self.blind is not None:
            figures["blind_accuracy"] = float(self.blind.mean())
            figures["below_blind"] = float(means[0] <= self.blind.mean())
        if means[0] > 0:
            figures["area"] = float(means[1:].mean() / means[0])
        if len(means) > 2:
            equal = np.ptp(means[1:]) == 0  # no ranks to correlate: 0 / 0
            trend = 0.0 if equal else spearmanr(np.arange(1, len(means)), means[1:]).statistic
            figures["trend"] = float(trend)
            centred = np.arange(1, len(means)) - len(means) / 2
            slopes = drawn[:, 1:] @ centred / (centred @ centred)  # (R,)
            slope = float(centred @ means[1:] / (centred @ centred))
            figures |= with_ends("slope", slope, *interval(slopes))
        return figures


def flips(answers: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """The share of the N questions whose answer changes under noise, right or wrong, at each level.

    Answers are compared after the official normalisation with those of level 0, which is clean.

    >>> flips([["Yes.", "2"], ["yes", "two"], ["no", "2"]]).tolist()
    [0.0, 0.5]
    """
    known = {text: normalise_answer(text) for level in answers for text in set(level)}
    table = np.array([[known[text] for text in level] for level in answers])  # (L + 1, N)
    return (table[1:] != table[0]).mean(axis=1)
