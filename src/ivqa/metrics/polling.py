"""Metrics of yes/no polling about objects: POPE (Li et al., EMNLP 2023)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ivqa.metrics.bootstrap import interval, resampled_means, with_ends

_RESAMPLES = 1000  # of the bootstrap


def says_yes(answer: str) -> bool:
    """Reads an answer in free text as yes or no, by the rule of POPE's evaluation.

    Of the text before the first full stop, without commas: it says no if one of its words is "No",
    "no" or "not", else yes.

    Example:
        >>> [says_yes(text) for text in ("Yes", "No, there is not. Yes.", "There is none", "NO")]
        [True, False, True, True]
    """
    words = answer.split(".")[0].replace(",", "").split(" ")
    return not {"No", "no", "not"} & set(words)


def polling_metrics(
    answers: Sequence[str], present: Sequence[bool], image_ids: NDArray[np.int64] | None = None
) -> dict[str, float]:
    """Computes the metrics of POPE, where "yes" is the positive class.

    Args:
        answers: N answers in free text, read by `says_yes`.
        present: Whether the right answer is yes, for each of the N questions.
        image_ids: (N,) ids of the questions' images, for the intervals.

    Returns:
        Fractions in [0, 1] by name: accuracy; precision, the share of right ones among the answers
        "yes" (absent without any); recall, the share of the questions with the answer yes that are
        answered so (absent without any); f1, their harmonic mean (absent without either, or where
        both are 0); yes_ratio, the share of answers "yes". With `image_ids`, NAME_low and NAME_high
        are the bounds of the 95 percent interval of each; the bootstrap draws images, whose
        questions are alike, and leaves out draws for which a figure is not defined.

    Raises:
        ValueError: Answers and questions differ in number, or there are none.

    Example:
        >>> figures = polling_metrics(["yes", "yes", "no", "yes"], [True, False, False, True])
        >>> {name: round(value, 3) for name, value in figures.items()}
        {'accuracy': 0.75, 'precision': 0.667, 'recall': 1.0, 'f1': 0.8, 'yes_ratio': 0.75}
    """
    if len(answers) != len(present) or not answers:
        raise ValueError(f"{len(answers)} answers for {len(present)} questions; give one each")
    said = np.array([says_yes(answer) for answer in answers])
    right = np.array(present, dtype=bool)
    outcomes = np.stack([said == right, said & right, said, right])  # (4, N)
    metrics = {
        name: float(value)
        for name, value in _figures(outcomes.mean(axis=1)).items()
        if np.isfinite(value) and (name != "f1" or value)
    }
    if image_ids is not None:
        drawn = _figures(resampled_means(outcomes, _RESAMPLES, 0, image_ids).T)
        for name in list(metrics):
            ends = interval(drawn[name][np.isfinite(drawn[name])])
            metrics |= with_ends(name, metrics[name], *ends)
    return metrics


def _figures(shares: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The metrics from the shares (4, ...) of right answers, of hits, of yes, and of right yes.

    A metric that is not defined is NaN.
    """
    correct, hits, said, right = shares
    with np.errstate(invalid="ignore"):
        return {
            "accuracy": correct,
            "precision": hits / said,
            "recall": hits / right,
            # 2 p r / (p + r) with p = hits / said and r = hits / right
            "f1": 2 * hits / (said + right),
            "yes_ratio": said,
        }
