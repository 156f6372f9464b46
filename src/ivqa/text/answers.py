"""The closed answer set A, and the VQA accuracy of each answer for a question."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ivqa.errors import UserError
from ivqa.text.normalisation import clean_space, normalise_answer, strip_punctuation

Revision = Literal[2015, 2018]
"""Revision of the official evaluation; it decides which answers count as equal."""

# Accuracy by the number of matching annotators among ten: the mean of min(matches / 3, 1) over the
# ten subsets of nine annotators [Antol et al. 2015, vqaEval.py].
_LEAVE_ONE_OUT = np.array([0.0, 0.3, 0.6, 0.9] + [1.0] * 7, dtype=np.float32)


def accuracy_of_matches(
    matches: NDArray[np.int64], annotators: NDArray[np.int64], *, leave_one_out: bool = True
) -> NDArray:
    """Computes the VQA accuracy of answers that some of n annotators gave, element-wise.

    For n = 10 it is the official leave-one-out average; for other n it is
    min(matches / min(3, n), 1), which is exact match for n = 1 and 0 for n = 0.

    Args:
        matches: How many annotators gave the answer, any shape, int64.
        annotators: The number n of annotators, same shape, int64.
        leave_one_out: If False, the formula for other n is used for n = 10 too.

    Returns:
        Accuracies in [0, 1], same shape, float32.

    Example:
        >>> accuracy_of_matches(np.array([2, 2, 1, 0]), np.array([10, 5, 1, 0])).round(3).tolist()
        [0.6000000238418579, 0.6669999957084656, 1.0, 0.0]
    """
    # The official formula has 3; with fewer annotators their number replaces it.
    divisor = np.clip(annotators, 1, 3)
    shortcut = np.minimum(matches / divisor, 1.0).astype(np.float32)
    if not leave_one_out:
        return shortcut
    return np.where(annotators == 10, _LEAVE_ONE_OUT[np.minimum(matches, 10)], shortcut)


@dataclass(frozen=True)
class SoftTargets:
    """Accuracies and counts of the answers to N questions: sparse matrices (N, |A|) in CSR format.

    Args:
        offsets: (N + 1,) int64; question i has the entries offsets[i]:offsets[i + 1] of the
            following three arrays.
        indices: Indices of answers, (nnz,) int64.
        counts: How many annotators gave each answer, (nnz,) int64.
        values: The accuracy of each answer in (0, 1], (nnz,) float32.
        num_answers: |A|.
    """

    offsets: NDArray[np.int64]
    indices: NDArray[np.int64]
    counts: NDArray[np.int64]
    values: NDArray[np.float32]
    num_answers: int

    def dense(self, rows: NDArray[np.int64]) -> Tensor:
        """Returns the accuracies of the questions `rows` (B,) int64 as a tensor (B, |A|) float32.

        Example:
            >>> answers = AnswerVocabulary(["yes", "no"])
            >>> soft = answers.soft_targets([["yes"] * 8 + ["no"] * 2, ["red"]])
            >>> soft.dense(np.array([1, 0])).tolist()
            [[0.0, 0.0], [1.0, 0.6000000238418579]]
        """
        return self._assembled(rows, self.values)

    def dense_counts(self, rows: NDArray[np.int64]) -> Tensor:
        """Returns the annotator counts of the questions `rows` (B,) int64 as (B, |A|) float32.

        Example:
            >>> answers = AnswerVocabulary(["yes", "no"])
            >>> soft = answers.soft_targets([["yes"] * 8 + ["no"] * 2, ["red"]])
            >>> soft.dense_counts(np.array([1, 0])).tolist()
            [[0.0, 0.0], [8.0, 2.0]]
        """
        return self._assembled(rows, self.counts)

    def _assembled(self, rows: NDArray[np.int64], entries_of: NDArray) -> Tensor:
        # sample: (nnz_B,) row of the batch; entries: (nnz_B,) position in the sparse arrays.
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        sample = np.repeat(np.arange(len(rows)), lengths)
        # 0 ... n - 1 for the n entries of each question.
        within = np.arange(len(sample)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        entries = np.repeat(starts, lengths) + within
        dense = np.zeros((len(rows), self.num_answers), dtype=np.float32)
        dense[sample, self.indices[entries]] = entries_of[entries]
        return torch.from_numpy(dense)

    def __len__(self) -> int:
        return len(self.offsets) - 1


class AnswerVocabulary:
    """The closed answer set A.

    Args:
        answers: Distinct answers, most frequent first by convention.

    Raises:
        UserError: An answer occurs twice.

    Example:
        >>> answers = AnswerVocabulary.build(["yes", "2", "no", "yes", "red"], size=3)
        >>> answers.answers, answers.index("no"), answers.index("blue")
        (['yes', '2', 'no'], 2, -1)
    """

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self._index = {answer: index for index, answer in enumerate(self.answers)}
        if len(self._index) != len(self.answers):
            twice = next(answer for answer, n in Counter(self.answers).items() if n > 1)
            raise UserError(f"answer vocabulary: answers must be distinct; {twice!r} occurs twice")

    @classmethod
    def build(cls, main_answers: Iterable[str], size: int) -> "AnswerVocabulary":
        """Builds the vocabulary of the most frequent main answers.

        Equally frequent answers are ordered alphabetically. The published code of 2015 sorts
        (count, answer) in descending order and so keeps the last of them instead; this matters only
        among the answers with the lowest count that is kept.

        Args:
            main_answers: The main answers of the training questions.
            size: Maximum number of answers to keep.

        Raises:
            UserError: `size` is below 1.
        """
        if size < 1:
            raise UserError(f"answer vocabulary: size must be at least 1, not {size}")
        ranked = sorted(Counter(main_answers).items(), key=lambda item: (-item[1], item[0]))
        return cls([answer for answer, _ in ranked[:size]])

    def __len__(self) -> int:
        return len(self.answers)

    def __contains__(self, answer: object) -> bool:
        return answer in self._index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnswerVocabulary) and self.answers == other.answers

    def __hash__(self) -> int:
        return hash(tuple(self.answers))

    def index(self, answer: str) -> int:
        """Returns the index of an answer, or -1 outside the vocabulary."""
        return self._index.get(answer, -1)

    def encode(self, answers: Sequence[str]) -> Tensor:
        """Returns the indices (N,) int64 of N answers, with -1 outside the vocabulary."""
        return torch.tensor([self._index.get(answer, -1) for answer in answers], dtype=torch.int64)

    def soft_targets(
        self,
        human_answers: Sequence[Sequence[str]],
        *,
        leave_one_out: bool = True,
        revision: Revision = 2018,
    ) -> SoftTargets:
        """Computes counts and accuracies of all answers of the vocabulary.

        Args:
            human_answers: The unprocessed answers of the annotators of each of N questions; a
                question without answers gets an empty row.
            leave_one_out: See `accuracy_of_matches`.
            revision: Decides which answers count as equal, see `AnswerMatching`.

        Returns:
            The counts and accuracies of N questions.
        """
        matching = AnswerMatching(self.answers, revision)
        found = [matching.of(given) for given in human_answers]
        lengths = np.array([len(indices) for indices in found], dtype=np.int64)
        rows = np.repeat(np.arange(len(found)), lengths)
        indices = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=len(rows))
        # Number the cells of the (N, |A|) matrix to count equal pairs (question, answer).
        width = max(len(self), 1)
        cells, matches = np.unique(rows * width + indices, return_counts=True)
        row_of, index_of = np.divmod(cells, width)
        # Running sums of the entries of each row, as in CSR.
        offsets = np.zeros(len(human_answers) + 1, dtype=np.int64)
        np.cumsum(np.bincount(row_of, minlength=len(human_answers)), out=offsets[1:])
        annotators = np.array([len(given) for given in human_answers], dtype=np.int64)
        counts = matches.astype(np.int64)
        values = accuracy_of_matches(counts, annotators[row_of], leave_one_out=leave_one_out)
        return SoftTargets(offsets, index_of, counts, values.astype(np.float32), len(self))


class AnswerMatching:
    """Finds the answers that count as equal to those of annotators, by a revision of vqaEval.py.

    Both revisions distinguish whether all annotators of a question gave the same answer:

    - 2018: white space at the ends is removed from both sides. If the annotators differ, both sides
      are normalised by `ivqa.text.normalisation`.
    - 2015: the answers are always normalised. Of the annotators' answers only the punctuation is
      normalised, and only if the annotators differ. An annotator's answer such as "a dog", "two" or
      "dog " therefore matches no answer.

    Args:
        answers: The answers to compare with, in the order of their positions.
        revision: The revision of the official evaluation.
    """

    def __init__(self, answers: Sequence[str], revision: Revision = 2018) -> None:
        self.revision = revision
        self._as_they_are = _positions(clean_space(answer) for answer in answers)
        self._normalised = _positions(normalise_answer(answer) for answer in answers)
        # Annotator's answer -> (its form if all agree, positions of equal answers if they differ).
        self._known: dict[str, tuple[str, list[int]]] = {}

    def of(self, given: Sequence[str]) -> list[int]:
        """Returns the positions of the equal answers for every annotator of one question in turn.

        Args:
            given: The answers of the annotators.

        Returns:
            Concatenated positions; an annotator's answer can equal no, one or several answers.
        """
        known = [self._known.get(text) or self._read(text) for text in given]
        texts = {text for text, _ in known}
        if len(texts) == 1:
            forms = self._as_they_are if self.revision == 2018 else self._normalised
            # Every annotator matches the same answers.
            return forms.get(texts.pop(), []) * len(given)
        return [position for _, equal in known for position in equal]

    def _read(self, text: str) -> tuple[str, list[int]]:
        if self.revision == 2018:
            read = clean_space(text), self._normalised.get(normalise_answer(text), [])
        else:
            read = text, self._normalised.get(strip_punctuation(text), [])
        self._known[text] = read
        return read


def _positions(forms: Iterable[str]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for position, form in enumerate(forms):
        positions.setdefault(form, []).append(position)
    return positions
