"""Two models on the same questions: which is more accurate at each level, which more robust."""

import numpy as np

from ivqa.errors import UserError
from ivqa.metrics import PUBLISHED_R_SCORE, RScore, interval, mcnemar, resampled_means
from ivqa.robustness.records import NoiseRecords

RIGHT = 0.5  # an answer is right from this accuracy on: at least two of ten annotators gave it


def paired_differences(
    first: NoiseRecords,
    second: NoiseRecords,
    resamples: int = 1000,
    seed: int = 0,
    r_score: RScore = PUBLISHED_R_SCORE,
) -> dict[str, float]:
    """Flat figures of the differences second - first, on the questions that both answered.

    questions: how many. partition_K/accuracy_difference and r_score_difference_K, each with _low
    and _high: the 95 percent interval of a bootstrap that draws the same questions for both models
    and all levels. partition_K/only_first, only_second, p_value: McNemar's test of the answers
    that are right, which for VQA's fractional accuracies means at least `RIGHT`; p values are not
    corrected for the number of levels. r_score: with its tolerance and limit.
    Raises UserError where the two share no question or differ in levels.
    """
    first, second = paired(first, second)
    levels = len(first.accuracies)
    both = np.concatenate([first.accuracies, second.accuracies])  # (2 (L + 1), N)
    measured = both.mean(axis=1)[None]
    drawn = np.clip(resampled_means(both, resamples, seed), 0, 1)
    figures = {"questions": float(len(first))}
    for level in range(levels):
        name = f"partition_{level}"
        figures |= _difference(
            f"{name}/accuracy_difference",
            *(means[:, levels + level] - means[:, level] for means in (measured, drawn)),
        )
        test = mcnemar(first.accuracies[level] >= RIGHT, second.accuracies[level] >= RIGHT)
        figures[f"{name}/only_first"] = float(test.only_first)
        figures[f"{name}/only_second"] = float(test.only_second)
        figures[f"{name}/p_value"] = test.p_value
    for level in range(1, levels):
        figures |= _difference(
            f"r_score_difference_{level}",
            *(
                r_score(means[:, levels], means[:, levels + level])
                - r_score(means[:, 0], means[:, level])
                for means in (measured, drawn)
            ),
        )
    return figures


def paired(first: NoiseRecords, second: NoiseRecords) -> tuple[NoiseRecords, NoiseRecords]:
    """Both on their common questions, in the same order.

    Raises:
        UserError: They share no question or differ in levels.
    """
    if len(first.accuracies) != len(second.accuracies):
        raise UserError(
            f"the first run has {len(first.accuracies) - 1} levels of noise and the second "
            f"{len(second.accuracies) - 1}; measure both with the same noise="
        )
    common, left, right = np.intersect1d(
        first.question_ids, second.question_ids, return_indices=True
    )
    if not len(common):
        raise UserError("the two runs share no question; evaluate both on the same data and split")
    return first.select(left), second.select(right)


def _difference(name: str, measured: object, drawn: object) -> dict[str, float]:
    low, high = interval(np.asarray(drawn))
    (value,) = np.asarray(measured)
    return {name: float(value), f"{name}_low": float(low), f"{name}_high": float(high)}
