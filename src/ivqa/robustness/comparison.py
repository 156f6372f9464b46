"""Compares models under noise on the same questions, and finds the answers that change."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.metrics import PUBLISHED_R_SCORE, RScore, interval, mcnemar, resampled_means, with_ends
from ivqa.robustness.records import NoiseRecords
from ivqa.text.normalisation import normalise_answer

# McNemar's test needs right and wrong answers: an answer counts as right if at least two of ten
# annotators gave it, which is an accuracy of 0.6.
RIGHT = 0.5


def paired_differences(
    first: NoiseRecords,
    second: NoiseRecords,
    resamples: int = 1000,
    seed: int = 0,
    r_score: RScore = PUBLISHED_R_SCORE,
) -> dict[str, float]:
    """Computes the differences second - first on the questions that both models answered.

    Args:
        first: Answers of the first model at levels 0..L.
        second: Answers of the second model at the same levels.
        resamples: Number of resamples of the bootstrap. It draws images, with the same questions
            for both models and all levels.

    Returns:
        Figures by name:

        - questions: the number of common questions;
        - partition_K/accuracy_difference and r_score_difference_K, each also with _low and _high,
          the bounds of the 95 percent interval;
        - partition_K/only_first and partition_K/only_second: the number of questions that only
          one model answers right (an accuracy of at least `RIGHT`);
        - partition_K/p_value: McNemar's test of these two over images, not corrected for several
          levels.

    Raises:
        UserError: The two have no common question or different levels.
    """
    first, second = common_questions([first, second])
    # Both models in one array, so that the bootstrap draws the same questions for both.
    levels = len(first.accuracies)
    both = np.concatenate([first.accuracies, second.accuracies])  # (2 (L + 1), N)
    images = first.image_ids
    # The measured means, (1, 2 (L + 1)), and those of the bootstrap, (R, 2 (L + 1)). Rounding may
    # leave one slightly outside [0, 1], which R_score refuses.
    measured = both.mean(axis=1)[None]
    drawn = np.clip(resampled_means(both, resamples, seed, images), 0, 1)
    figures = {"questions": float(len(first))}
    for level in range(levels):
        name = f"partition_{level}"
        # Columns 0 ... L are the levels of the first model, L + 1 ... 2 L + 1 those of the second.
        value, samples = (means[:, levels + level] - means[:, level] for means in (measured, drawn))
        figures |= with_ends(f"{name}/accuracy_difference", value[0], *interval(samples))
        right = [one.accuracies[level] >= RIGHT for one in (first, second)]
        test = mcnemar(right[0], right[1], images)
        figures[f"{name}/only_first"] = float(test.only_first)
        figures[f"{name}/only_second"] = float(test.only_second)
        figures[f"{name}/p_value"] = test.p_value
    for level in range(1, levels):
        value, samples = (
            np.asarray(
                r_score(means[:, levels], means[:, levels + level])
                - r_score(means[:, 0], means[:, level])
            )
            for means in (measured, drawn)
        )
        figures |= with_ends(f"r_score_difference_{level}", value[0], *interval(samples))
    return figures


def common_questions(records: Sequence[NoiseRecords]) -> list[NoiseRecords]:
    """Selects the questions that all models answered.

    Returns:
        The answers of each model to the common questions, in the same order.

    Raises:
        UserError: They have no common question, or different levels or accuracies.
    """
    first = records[0]
    common = first.question_ids
    for other in records[1:]:
        if len(first.accuracies) != len(other.accuracies):
            raise UserError(
                f"the first run has {len(first.accuracies) - 1} levels of noise and another one "
                f"{len(other.accuracies) - 1}; measure all with the same noise="
            )
        if first.accuracy != other.accuracy:
            raise UserError(
                f"the first run has r_score.accuracy={first.accuracy} and another one "
                f"{other.accuracy}; evaluate all with the same one"
            )
        common = np.intersect1d(common, other.question_ids)
    if not len(common):
        raise UserError("the runs share no question; evaluate all on the same data and split")
    return [
        one.select(np.intersect1d(one.question_ids, common, return_indices=True)[1])
        for one in records
    ]


@dataclass(frozen=True)
class Flips:
    """The questions whose answer or its verdict at one level differs from that without noise.

    Attributes:
        broken: Positions of questions whose answer was right and is wrong (accuracy below `RIGHT`).
        repaired: Positions of questions whose answer was wrong and is right.
        other: Positions of questions whose answer changed, but not its verdict.
    """

    broken: NDArray[np.int64]
    repaired: NDArray[np.int64]
    other: NDArray[np.int64]

    def examples(self, number: int, seed: int = 0) -> list[int]:
        """Draws examples: two thirds of them broken, the others repaired, as far as there are any.

        Returns:
            At most `number` positions of broken questions, then of repaired ones.
        """
        rng = np.random.default_rng(seed)
        broken: list[int] = rng.permutation(self.broken).tolist()
        repaired: list[int] = rng.permutation(self.repaired).tolist()
        few = min(len(repaired), number - min(len(broken), round(number * 2 / 3)))
        return broken[: number - few] + repaired[:few]


def flips_at(records: NoiseRecords, level: int) -> Flips:
    """Finds the answers of one level that differ from those without noise.

    Returns:
        The questions whose answer becomes wrong or right, or differs after normalisation.
    """
    clean, noisy = records.answers[0], records.answers[level]
    changed = np.array(
        [normalise_answer(a) != normalise_answer(b) for a, b in zip(clean, noisy, strict=True)]
    )
    before, after = (records.accuracies[at] >= RIGHT for at in (0, level))
    return Flips(
        broken=np.flatnonzero(before & ~after),
        repaired=np.flatnonzero(~before & after),
        other=np.flatnonzero(changed & (before == after)),
    )
