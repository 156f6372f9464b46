"""Rules of official evaluations: which answers are equal, and what matches with annotators count.

The default is the VQA evaluation [Antol et al. 2015; vqaEval.py]; data sets with another evaluation
have their rule in their reader.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ivqa.text.normalisation import clean_space, normalise_answer, strip_punctuation

Form = Callable[[str], str]
"""Gives the form of an answer that is compared."""

Accuracy = Literal["official", "paper"]
"""Which accuracy: that of the data set's evaluation, or min(n / 3, 1) of the papers."""

Worth = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
"""Gives the accuracy of answers, from the numbers of matching annotators and of annotators."""


def _shortcut(matches: NDArray[np.int64], annotators: NDArray[np.int64]) -> NDArray[np.float64]:
    """Computes min(matches / min(3, n), 1), which is exact match for n = 1 and 0 for n = 0."""
    # The official formula has 3; with fewer annotators their number replaces it.
    return np.minimum(matches / np.clip(annotators, 1, 3), 1.0)


def leave_one_out(matches: NDArray[np.int64], annotators: NDArray[np.int64]) -> NDArray[np.float64]:
    """Computes the mean over annotators i of min(1, matches among the other annotators / 3).

    Arguments and result are those of `accuracy_of_matches`.

    Example:
        >>> leave_one_out(np.array([0, 1, 2, 3, 4]), np.array([10] * 5)).tolist()
        [0.0, 0.3, 0.6, 0.9, 1.0]
    """
    # An annotator who gave the answer leaves one match less to the others.
    of_matching = matches * np.minimum(matches - 1, 3)
    of_others = (annotators - matches) * np.minimum(matches, 3)
    return (of_matching + of_others) / (3 * np.maximum(annotators, 1))


def accuracy_of_matches(
    matches: NDArray[np.int64], annotators: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Computes the VQA accuracy of answers that some of n annotators gave, element-wise.

    For n = 10 it is the official `leave_one_out`, for other n `_shortcut`.

    Args:
        matches: How many annotators gave the answer, any shape, int64.
        annotators: The number n of annotators, same shape, int64.

    Returns:
        Accuracies in [0, 1], same shape, float64.

    Example:
        >>> accuracy_of_matches(np.array([2, 2, 1, 0]), np.array([10, 5, 1, 0])).round(3).tolist()
        [0.6, 0.667, 1.0, 0.0]
    """
    official = leave_one_out(matches, annotators)
    return np.where(annotators == 10, official, _shortcut(matches, annotators))


def as_written(answer: str) -> str:
    """Returns the answer itself."""
    return answer


@dataclass(frozen=True)
class AnswerRule:
    """How an evaluation compares answers, and what matches count.

    Args:
        answer: Form of the answers to score.
        given: Form of the annotators' answers.
        agreed: Forms of both, where two annotators or more of a question all gave the same answer;
            None for the same forms everywhere.
        worth: Accuracy by the number of matching annotators.
    """

    answer: Form
    given: Form
    agreed: tuple[Form, Form] | None = None
    worth: Worth = accuracy_of_matches


# White space at the ends is removed from both sides. If the annotators differ, both sides are
# normalised; a single annotator, for whom the official evaluation has no rule, counts as differing.
VQA_2018 = AnswerRule(normalise_answer, normalise_answer, (clean_space, clean_space))
VQA_SHORTCUT = AnswerRule(normalise_answer, normalise_answer, (clean_space, clean_space), _shortcut)
# The answers are always normalised. Of the annotators' answers only the punctuation is normalised,
# and only if the annotators differ. An annotator's answer such as "a dog", "two" or "dog "
# therefore matches no answer.
VQA_2015 = AnswerRule(normalise_answer, strip_punctuation, (normalise_answer, as_written))
EXACT = AnswerRule(as_written, as_written)


class AnswerMatching:
    """Finds the answers, by position, that count as equal to those of annotators."""

    def __init__(self, answers: Sequence[str], rule: AnswerRule = VQA_2018) -> None:
        of_agreed, self._given_agreed = rule.agreed or (rule.answer, rule.given)
        self._given = rule.given
        self._agreed = _positions(of_agreed(answer) for answer in answers)
        self._differing = _positions(rule.answer(answer) for answer in answers)
        # Annotator's answer -> (its form if all agree, positions of equal answers if they differ).
        self._known: dict[str, tuple[str, list[int]]] = {}

    def of(self, given: Sequence[str]) -> list[int]:
        """Returns the positions of the equal answers for every annotator of one question in turn.

        They are concatenated; an annotator's answer can equal no, one or several answers.
        """
        known = [self._known.get(text) or self._read(text) for text in given]
        texts = {text for text, _ in known}
        if len(texts) == 1 < len(given):
            # Every annotator matches the same answers.
            return self._agreed.get(texts.pop(), []) * len(given)
        return [position for _, equal in known for position in equal]

    def _read(self, text: str) -> tuple[str, list[int]]:
        read = self._given_agreed(text), self._differing.get(self._given(text), [])
        self._known[text] = read
        return read


def _positions(forms: Iterable[str]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for position, form in enumerate(forms):
        positions.setdefault(form, []).append(position)
    return positions
