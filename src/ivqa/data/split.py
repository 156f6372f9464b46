"""A split: its questions and answers as columns, and how the data set scores answers."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ivqa.data.images import ImageFiles
from ivqa.data.validation import DataError, listed
from ivqa.text.answer_matching import (
    EXACT,
    VQA_2015,
    VQA_2018,
    VQA_SHORTCUT,
    Accuracy,
    AnswerRule,
)
from ivqa.text.answers import vqa_accuracies


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


@dataclass(frozen=True, eq=False)
class VQASplit:
    """N questions of one split, as columns in the order of the questions file.

    In a split without annotations (the official test sets), `has_answers` is False; each question
    has an empty list of answers, and its main answer and answer type are "".

    Args:
        name: Name of the split in the file names.
        question_ids: (N,) int64.
        image_ids: Ids of the questions' images in the data set, (N,) int64.
        questions: The texts as written.
        answers: The unprocessed answers of the n >= 1 annotators of each question.
        main_answers: The most frequent answer of each question (`multiple_choice_answer`).
        answer_types: The answer type of each question, one of ANSWER_TYPES.
        question_types: The leading words of each question.
        has_answers: Whether the split has annotations.
        multiple_choices: Candidate answers of each question; None in open-ended files.
        images: The image files; None for text-only data.
        images_tried: The paths that were searched for images, for error messages.
        captions: Captions by image id, or None.
        layouts: Expert layouts by question id, or None.
        extras: Further columns as published, by their official names, such as "rationales"; each
            has N values.
        kinds: The kind of belief of each question (key "kind" of the questions file), "" where it
            is unknown; None in files without kinds.
        metric: How answers to the questions are scored.
        server_results: Formats answers for the server of the data set, with its own ids, see
            `ivqa.data.results.results_text`; None for the official list.
    """

    name: str
    question_ids: NDArray[np.int64]
    image_ids: NDArray[np.int64]
    questions: list[str]
    answers: list[list[str]]
    main_answers: list[str]
    answer_types: list[str]
    question_types: list[str]
    has_answers: bool = True
    multiple_choices: list[list[str]] | None = None
    images: ImageFiles | None = None
    images_tried: tuple[str, ...] = ()
    captions: dict[int, list[str]] | None = None
    layouts: dict[int, list[str]] | None = None
    extras: Mapping[str, list[Any]] = field(default_factory=dict)
    kinds: list[str] | None = None
    metric: AnswerMetric = field(default_factory=AnswerMetric)
    server_results: "ServerResults | None" = None

    def __len__(self) -> int:
        return len(self.questions)

    def select(self, rows: NDArray[np.int64]) -> "VQASplit":
        """Returns the questions `rows` (N',) in that order."""
        columns: dict[str, Any] = {
            name: [values[row] for row in rows.tolist()]
            for name, values in vars(self).items()
            if isinstance(values, list)
        }
        extras = {name: [held[row] for row in rows.tolist()] for name, held in self.extras.items()}
        return replace(
            self,
            question_ids=self.question_ids[rows],
            image_ids=self.image_ids[rows],
            extras=extras,
            **columns,
        )

    def require_images(self) -> ImageFiles:
        """Returns the image files.

        Raises:
            DataError: There are none; the message lists the paths that were searched.
        """
        if self.images is None:
            raise DataError(
                f"split '{self.name}' has no images; looked for {listed(self.images_tried)}; "
                "put them there, set data.image_pattern, or choose features=none"
            )
        return self.images

    def require_answers(self) -> "VQASplit":
        """Returns the split itself.

        Raises:
            DataError: The split has no annotations.
        """
        if not self.has_answers:
            raise DataError(
                f"split '{self.name}' has no annotations, so no model can be trained or scored "
                "on it; choose another split or add its annotations file"
            )
        return self


# The JSON value that a server reads, from a split and its answers, or the chosen ones of multiple
# choices, or both.
ServerResults = Callable[[VQASplit, Sequence[str] | None, Sequence[str] | None], Any]


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
