"""How a data set scores answers: VQA accuracy, unless its reader has a subclass."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ivqa.text.answer_matching import (
    EXACT,
    VQA_2015,
    VQA_2018,
    VQA_SHORTCUT,
    Accuracy,
    AnswerRule,
)
from ivqa.text.answers import vqa_accuracies

if TYPE_CHECKING:
    from ivqa.data.vqa_json import VQASplit


class AnswerMetric:
    """VQA accuracy; subclasses are the official evaluations of other data sets.

    Attributes:
        rule: Gives the accuracy of an answer: `vqa/accuracy`, and the accuracy under noise.
        further: Further accuracies by name, by other rules.
        probed: An answer whose probability `figures` reads, or None.
    """

    rule: AnswerRule = VQA_2018
    further: ClassVar[Mapping[str, AnswerRule]] = {
        "accuracy_shortcut": VQA_SHORTCUT,
        "accuracy_2015": VQA_2015,
    }
    probed: ClassVar[str | None] = None

    def with_accuracy(self, accuracy: Accuracy) -> Self:
        """Returns the evaluation with the official accuracy, or with that of the papers.

        Args:
            accuracy: "official" for this evaluation itself; "paper" for min(n / 3, 1) of the n
                matching annotators [ROB eq. 2; IJCV eq. 6], with min(3, annotators) in place of 3.
                Which answers match stays the data set's own, so where a question has a single
                annotator the two are equal.

        Example:
            >>> vqa_accuracies(["2"], [["2"] * 2 + ["3"] * 8], rule=AnswerMetric().rule).tolist()
            [0.6]
            >>> rule = AnswerMetric().with_accuracy("paper").rule
            >>> vqa_accuracies(["2"], [["2"] * 2 + ["3"] * 8], rule=rule).round(3).tolist()
            [0.667]
        """
        if accuracy == "official":
            return self
        metric = copy(self)
        metric.rule = replace(self.rule, worth=VQA_SHORTCUT.worth)
        return metric

    def counted(self, split: "VQASplit") -> NDArray[np.bool_]:
        """Which of N questions with annotations the evaluation counts, (N,) bool."""
        return np.ones(len(split), dtype=np.bool_)

    def answer_types(self, split: "VQASplit") -> list[str]:
        """The answer types of N questions by which the evaluation lists accuracies; "" for none."""
        return split.answer_types

    def choice_accuracies(self, split: "VQASplit", chosen: Sequence[str]) -> NDArray[np.float64]:
        """Computes the accuracy of the candidate that was chosen for each question; "" for none.

        Returns (N,) float64 in [0, 1].
        """
        return vqa_accuracies(chosen, split.answers, rule=self.rule)

    def figures(
        self,
        split: "VQASplit",
        answers: Sequence[str],
        accuracies: NDArray[np.float64],
        probability: NDArray[np.float64] | None = None,
    ) -> dict[str, float]:
        """Computes what the evaluation reports beside accuracies.

        Args:
            split: N questions with annotations.
            answers: The answer to each question.
            accuracies: Their accuracies by `rule`, (N,).
            probability: phi of the answer `probed` for each question, (N,); None where unknown.

        Returns:
            Figures by flat names that start with the data set's. A figure that cannot be computed
            is left out.
        """
        return {}


class ExactMatch(AnswerMetric):
    """The share of answers that equal the right one letter by letter."""

    rule = EXACT
    further: ClassVar[Mapping[str, AnswerRule]] = {}


def means_by(kinds: Sequence[object], values: NDArray[np.float64]) -> dict[str, float]:
    """Averages values by kind, in the order of the kinds; without the kinds None and "".

    Example:
        >>> means_by(["a", None, "a", "b"], np.array([1.0, 0.0, 0.5, 0.25]))
        {'a': 0.75, 'b': 0.25}
    """
    own: dict[object, list[float]] = {kind: [] for kind in kinds if kind}
    for kind, value in zip(kinds, values.tolist(), strict=True):
        if kind:
            own[kind].append(value)
    return {str(kind): float(np.mean(found)) for kind, found in own.items()}
