"""VQABQ: basic questions that help a model, selected by thresholds [IJCV, Algorithm 1].

`VQABQ` appends them to a question, and `search_thresholds` finds the thresholds for a model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Protocol

import numpy as np
from annotated_types import Len
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.ranges import Count, NonNegative

ThreeThresholds = Annotated[Sequence[NonNegative], Len(3, 3)]

# (s1, s2, s3) of the paper; the published code has others, (0.43, 0.82, 0.53).
THRESHOLDS = (0.60, 0.58, 0.41)
# What the thresholds are compared with, by the names of `ratio_statistics`.
RATIOS = ("score1", "score2_over_score1", "score3_over_score2")


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


@dataclass(frozen=True)
class BestBasicQuestions:
    """Appends the best basic questions to each question: level L appends L of them, without a rule.

    With an answer at each level, `search_thresholds` knows the accuracy of every selection.
    """

    source: RankedBasicQuestions
    levels: Count = 3

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Concatenates each question with its best basic questions; see `Noise`.

        Raises:
            UserError: The source cannot rank a question.
        """
        ranked, _ = self.source.ranked(questions, training)
        pairs = list(zip(questions, ranked, strict=True))
        return [
            [" ".join([question, *texts[:level]]) for question, texts in pairs]
            for level in range(1, self.levels + 1)
        ]


def helpful_counts(
    scores: NDArray[np.floating], thresholds: ThreeThresholds = THRESHOLDS
) -> NDArray[np.int64]:
    """Counts the helpful basic questions of each main question [IJCV, Algorithm 1].

    The first helps if score1 > s1. The second helps if the first does and score2 / score1 > s2.
    The third helps if the second does and score3 / score2 > s3.

    Algorithm 1 can also be read as three independent conditions. That reading cannot have given
    Table 6, where 96.84 percent of the questions have no helpful one: the mean of score2 / score1
    is 0.61 there, above s2 = 0.58.

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
    # A basic question helps only if all better ones do.
    return _passed(scores, thresholds).cumprod(axis=1).sum(axis=1)


def differs_when_independent(
    scores: NDArray[np.floating], thresholds: ThreeThresholds = THRESHOLDS
) -> float:
    """The share of questions whose selection differs if the three conditions are independent.

    Arguments and errors are those of `helpful_counts`.

    Example:
        >>> differs_when_independent(np.array([[0.5, 0.4, 0.1], [0.7, 0.5, 0.1]]))
        0.5
    """
    passed = _passed(scores, thresholds)
    return float((passed.cumprod(axis=1) != passed).any(axis=1).mean())


def selection_figures(
    scores: NDArray[np.floating], thresholds: ThreeThresholds = THRESHOLDS
) -> dict[str, float]:
    """Computes the statistics of the selection by `helpful_counts`, whose arguments it has.

    Returns:
        helpful_0 to helpful_3, the share of main questions with that number of helpful ones
        [IJCV, Table 6], and the figures of `ratio_statistics`.
    """
    counts = helpful_counts(scores, thresholds)
    figures = {f"helpful_{count}": float((counts == count).mean()) for count in range(4)}
    return figures | ratio_statistics(scores)


def ratio_statistics(scores: NDArray[np.floating]) -> dict[str, float]:
    """Mean and standard deviation of what the thresholds are compared with [IJCV, Table 5].

    `scores` and errors are those of `helpful_counts`.

    Returns:
        score1, score2_over_score1, score3_over_score2, and each with _std, over the questions whose
        divisor is positive; absent where no question has a positive one.

    Example:
        >>> ratio_statistics(np.array([[0.8, 0.4, 0.0], [0.0, 0.0, 0.0]]))["score2_over_score1"]
        0.5
    """
    ratios = _ratios(scores)
    figures: dict[str, float] = {}
    defined = np.ones(len(ratios), dtype=bool)
    for column, name in enumerate(RATIOS):
        if defined.any():
            values = ratios[defined, column]
            figures |= {name: float(values.mean()), f"{name}_std": float(values.std())}
        # The next ratio divides by the score of this column.
        defined = ratios[:, column] > 0
    return figures


@dataclass(frozen=True, eq=False)
class ThresholdSearch:
    """Searches the thresholds with the highest accuracy of a model, over a grid.

    The paper takes mean and deviation of the ratios as a first estimate and then tunes the
    thresholds, without its rule. Here each threshold is mean + d * deviation of its ratio, and all
    combinations of `deviations` are scored from the answers to the question with 0 to 3 of its best
    basic questions, so the model answers nothing again.

    Args:
        scores: Scores (N, k) of the basic questions, best first.
        accuracies: Accuracies (4, N) of the answers with 0, 1, 2 and 3 basic questions.
        deviations: The values of d.

    Example:
        >>> scores = np.array([[0.8, 0.0, 0.0], [0.2, 0.0, 0.0]])
        >>> found = ThresholdSearch(scores, np.array([[0, 1], [1, 0], [0, 0], [0, 0]]), [-2, 0])
        >>> found.best, found.accuracy
        ((0.5, 0.0, 0.0), 1.0)
    """

    scores: NDArray[np.floating]
    accuracies: NDArray[np.floating]
    deviations: Sequence[float]

    @cached_property
    def grid(self) -> list[NDArray[np.float64]]:
        """The values of s1, s2 and s3 in ascending order; at least 0."""
        known = ratio_statistics(self.scores)
        found = []
        for name in RATIOS:
            # A ratio that no question has is 0 for all of them.
            mean, deviation = known.get(name, 0.0), known.get(f"{name}_std", 0.0)
            values = mean + np.asarray(self.deviations, dtype=np.float64) * deviation
            found.append(np.unique(values.clip(min=0)))
        return found

    @cached_property
    def best(self) -> tuple[float, float, float]:
        """The thresholds of the highest accuracy.

        Of equal ones those that append the fewest basic questions, then the lowest.
        """
        appended = np.repeat(np.arange(4.0)[:, None], len(self.scores), axis=1)
        # Rounded, so that sums in another order do not decide between equal accuracies.
        accuracy, number = (
            self.means(values).round(9).ravel() for values in (self.accuracies, appended)
        )
        at = np.unravel_index(np.lexsort((number, -accuracy))[0], [len(one) for one in self.grid])
        first, second, third = (
            float(values[row]) for values, row in zip(self.grid, at, strict=True)
        )
        return first, second, third

    @property
    def accuracy(self) -> float:
        """The accuracy with the thresholds `best`."""
        return float(selected(self.accuracies, helpful_counts(self.scores, self.best)).mean())

    def means(self, values: NDArray[np.floating]) -> NDArray[np.float64]:
        """Means of values under every combination of thresholds.

        Args:
            values: Values (4, N) of each question with 0, 1, 2 and 3 basic questions.

        Returns:
            Means (G1, G2, G3) over the N questions.
        """
        ratios = _ratios(self.scores)
        first, second, third = (
            (ratios[:, column] > values[:, None]).astype(np.float64)  # (G, N)
            for column, values in enumerate(self.grid)
        )
        # Each basic question that passes adds a step to the value of the question alone.
        steps = np.diff(np.asarray(values, dtype=np.float64), axis=0)  # (3, N)
        with_two = first[:, None] * second  # (G1, G2, N)
        total = (
            values[0].sum()
            + (first @ steps[0])[:, None, None]
            + (with_two @ steps[1])[:, :, None]
            + (with_two * steps[2]) @ third.T
        )
        return total / len(self.scores)


def selected(values: NDArray[np.floating], counts: NDArray[np.int64]) -> NDArray[np.floating]:
    """The values (N,) of questions with `counts` (N,) basic questions; `values` is (4, N)."""
    return values[counts, np.arange(len(counts))]


def _passed(scores: NDArray[np.floating], thresholds: ThreeThresholds) -> NDArray[np.bool_]:
    """Whether score1, score2 / score1 and score3 / score2 exceed their thresholds, (N, 3)."""
    if len(thresholds) != 3:
        raise UserError(f"VQABQ takes three thresholds, not {list(thresholds)}")
    return _ratios(scores) > np.asarray(thresholds)


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
