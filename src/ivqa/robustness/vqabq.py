"""VQABQ: basic questions that help a model, selected by thresholds [IJCV, Algorithm 1]."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Len
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.ranges import Count, NonNegative

ThreeThresholds = Annotated[Sequence[NonNegative], Len(3, 3)]

# (s1, s2, s3) of the paper; the published code has others, (0.43, 0.82, 0.53).
THRESHOLDS = (0.60, 0.58, 0.41)


class RankedBasicQuestions(Protocol):
    """A source of rankings, such as `BasicQuestionNoise` or `BQDNoise`."""

    def ranked(
        self, questions: Sequence[str], training: Sequence[str]
    ) -> tuple[list[list[str]], NDArray[np.float32]]:
        """Ranks basic questions.

        Args:
            questions: N main questions.
            training: The pool of basic questions.

        Returns:
            The k basic questions of each main question, best first, and their scores (N, k).
        """


@dataclass(frozen=True)
class VQABQ:
    """Appends to each question its zero to three helpful basic questions, at level 1.

    The accuracy at partition 1 of the noise curve is that of VQABQ; compare it with partition 0.

    Args:
        source: Ranks the basic questions.
        thresholds: The thresholds (s1, s2, s3) of `helpful_counts`.
        levels: Always 1.
    """

    source: RankedBasicQuestions
    thresholds: ThreeThresholds = THRESHOLDS
    levels: Count = 1

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Concatenates each question with its helpful basic questions, as one level.

        Raises:
            UserError: The source cannot rank a question, or its scores are not finite.
        """
        ranked, scores = self.source.ranked(questions, training)
        counts = helpful_counts(scores, self.thresholds).tolist()
        parts = zip(questions, ranked, counts, strict=True)
        return [[" ".join([question, *texts[:count]]) for question, texts, count in parts]]

    def figures(self, questions: Sequence[str], training: Sequence[str]) -> dict[str, float]:
        """The figures of `selection_figures`."""
        return selection_figures(self.source.ranked(questions, training)[1], self.thresholds)


def helpful_counts(
    scores: NDArray[np.floating], thresholds: ThreeThresholds = THRESHOLDS
) -> NDArray[np.int64]:
    """Counts the helpful basic questions of each main question [IJCV, Algorithm 1].

    The first helps if score1 > s1. The second helps if the first does and score2 / score1 > s2.
    The third helps if the second does and score3 / score2 > s3.

    Args:
        scores: Scores (N, k), best first. Absent scores count as 0.
        thresholds: (s1, s2, s3).

    Returns:
        Counts (N,), from 0 to 3.

    Raises:
        UserError: A score is not finite, or there are not three thresholds.

    Example:
        >>> helpful_counts(np.array([[0.2952, 0.2401, 0.1416], [0.7, 0.5, 0.1], [0.61, 0.3, 0.3]]))
        array([0, 2, 1])
    """
    if len(thresholds) != 3:
        raise UserError(f"VQABQ takes three thresholds, not {list(thresholds)}")
    passed = _ratios(scores) > np.asarray(thresholds)
    # A basic question helps only if all better ones do.
    return passed.cumprod(axis=1).sum(axis=1)


def selection_figures(
    scores: NDArray[np.floating], thresholds: ThreeThresholds = THRESHOLDS
) -> dict[str, float]:
    """Computes the statistics of the selection.

    Args:
        scores: Scores (N, k), best first.
        thresholds: (s1, s2, s3) of `helpful_counts`.

    Returns:
        Figures by name:

        - helpful_0 to helpful_3: the share of main questions with that number of helpful ones;
        - score1, score2_over_score1, score3_over_score2, and each with _std: mean and standard
          deviation, over the questions whose divisor is positive.

    Raises:
        UserError: A score is not finite, or there are not three thresholds.
    """
    counts, ratios = helpful_counts(scores, thresholds), _ratios(scores)
    figures = {f"helpful_{count}": float((counts == count).mean()) for count in range(4)}
    defined = np.ones(len(ratios), dtype=bool)
    names = ("score1", "score2_over_score1", "score3_over_score2")
    for column, name in enumerate(names):
        if defined.any():
            values = ratios[defined, column]
            figures |= {name: float(values.mean()), f"{name}_std": float(values.std())}
        # The next ratio divides by the score of this column.
        defined = ratios[:, column] > 0
    return figures


def _ratios(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    """score1, score2 / score1 and score3 / score2 of N questions, (N, 3); 0 / 0 is 0."""
    # A ranking of fewer than three has score 0 for the absent ones.
    best = np.zeros((len(scores), 3))
    best[:, : scores.shape[1]] = scores[:, :3]
    if not np.isfinite(best).all():
        row = int(np.flatnonzero(~np.isfinite(best).all(axis=1))[0])
        raise UserError(f"the scores of main question {row} are not finite; rank it again")
    over = best[:, :-1]
    # (N, 2): score2 / score1 and score3 / score2.
    ratios = np.divide(best[:, 1:], over, out=np.zeros_like(over), where=over > 0)
    return np.column_stack([best[:, 0], ratios])
