"""The closed set of answers A, and how right each of them is for a question."""

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
"""Of the official evaluation: which answers count as equal."""

# Accuracy by the number of matching annotators of ten, averaged over the ten leave-one-out
# subsets of nine: min(matches / 3, 1) of each [Antol et al. 2015, vqaEval.py].
_LEAVE_ONE_OUT = np.array([0.0, 0.3, 0.6, 0.9] + [1.0] * 7, dtype=np.float32)


def accuracy_of_matches(
    matches: NDArray[np.int64], annotators: NDArray[np.int64], *, leave_one_out: bool = True
) -> NDArray:
    """VQA accuracy in [0, 1] of an answer that `matches` of n `annotators` gave, element-wise.

    The official leave-one-out average where n = 10; min(matches / min(3, n), 1) otherwise, which
    is exact match where n = 1; 0 where n = 0. Without leave_one_out that shortcut for all n.

    >>> accuracy_of_matches(np.array([2, 2, 1, 0]), np.array([10, 5, 1, 0])).round(3).tolist()
    [0.6000000238418579, 0.6669999957084656, 1.0, 0.0]
    """
    divisor = np.clip(annotators, 1, 3)
    shortcut = np.minimum(matches / divisor, 1.0).astype(np.float32)
    if not leave_one_out:
        return shortcut
    return np.where(annotators == 10, _LEAVE_ONE_OUT[np.minimum(matches, 10)], shortcut)


@dataclass(frozen=True)
class SoftTargets:
    """What the annotators of N questions say of each answer: a sparse matrix (N, |A|), CSR form.

    offsets: (N + 1,) int64; row i is the slice offsets[i]:offsets[i + 1] of the other three.
    indices: (nnz,) int64 answer indices. counts: (nnz,) int64, how many annotators gave the answer.
    values: (nnz,) float32 in (0, 1], its accuracy. num_answers: |A|.
    """

    offsets: NDArray[np.int64]
    indices: NDArray[np.int64]
    counts: NDArray[np.int64]
    values: NDArray[np.float32]
    num_answers: int

    def dense(self, rows: NDArray[np.int64]) -> Tensor:
        """Accuracies of the questions `rows` (B,): (B, |A|) float32, assembled by array indexing.

        >>> soft = AnswerVocabulary(["yes", "no"]).soft_targets([["yes"] * 8 + ["no"] * 2, ["red"]])
        >>> soft.dense(np.array([1, 0])).tolist()
        [[0.0, 0.0], [1.0, 0.6000000238418579]]
        """
        return self._assembled(rows, self.values)

    def dense_counts(self, rows: NDArray[np.int64]) -> Tensor:
        """Numbers of annotators of the questions `rows` (B,): (B, |A|) float32, likewise.

        >>> soft = AnswerVocabulary(["yes", "no"]).soft_targets([["yes"] * 8 + ["no"] * 2, ["red"]])
        >>> soft.dense_counts(np.array([1, 0])).tolist()
        [[0.0, 0.0], [8.0, 2.0]]
        """
        return self._assembled(rows, self.counts)

    def _assembled(self, rows: NDArray[np.int64], entries_of: NDArray) -> Tensor:
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        sample = np.repeat(np.arange(len(rows)), lengths)
        within = np.arange(len(sample)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        entries = np.repeat(starts, lengths) + within
        dense = np.zeros((len(rows), self.num_answers), dtype=np.float32)
        dense[sample, self.indices[entries]] = entries_of[entries]
        return torch.from_numpy(dense)

    def __len__(self) -> int:
        return len(self.offsets) - 1


class AnswerVocabulary:
    """The closed answer set A: distinct answers, most frequent first by convention.

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
        """The `size` most frequent main answers; ties in string order, first one kept.

        The published code of 2015 reverse-sorts (count, answer) and so keeps the last one of a
        tie; which of two equally rare answers is kept has no effect beyond the last count.
        Raises UserError where `size` is below 1.
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
        """Index of `answer`, -1 outside the vocabulary."""
        return self._index.get(answer, -1)

    def encode(self, answers: Sequence[str]) -> Tensor:
        """Indices (N,) int64 of `answers`, -1 outside the vocabulary."""
        return torch.tensor([self._index.get(answer, -1) for answer in answers], dtype=torch.int64)

    def soft_targets(
        self,
        human_answers: Sequence[Sequence[str]],
        *,
        leave_one_out: bool = True,
        revision: Revision = 2018,
    ) -> SoftTargets:
        """How many annotators gave each answer of the vocabulary, and the accuracy it would get.

        human_answers: the annotators' answers, raw, of each of N questions; none at all gives an
        empty row. leave_one_out: see `accuracy_of_matches`. revision: of the official evaluation,
        which says when answers count as equal: `AnswerMatching`.
        """
        matching = AnswerMatching(self.answers, revision)
        found = [matching.of(given) for given in human_answers]
        lengths = np.array([len(indices) for indices in found], dtype=np.int64)
        rows = np.repeat(np.arange(len(found)), lengths)
        indices = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=len(rows))
        width = max(len(self), 1)
        cells, matches = np.unique(rows * width + indices, return_counts=True)
        row_of, index_of = np.divmod(cells, width)
        offsets = np.zeros(len(human_answers) + 1, dtype=np.int64)
        np.cumsum(np.bincount(row_of, minlength=len(human_answers)), out=offsets[1:])
        annotators = np.array([len(given) for given in human_answers], dtype=np.int64)
        counts = matches.astype(np.int64)
        values = accuracy_of_matches(counts, annotators[row_of], leave_one_out=leave_one_out)
        return SoftTargets(offsets, index_of, counts, values.astype(np.float32), len(self))


class AnswerMatching:
    """Which of some answers count as equal to what annotators wrote, in a revision of vqaEval.py.

    2018: both without white space at their ends; beyond that both as they are where all annotators
    of the question agree, and both normalised by `ivqa.text.normalisation` where they differ.
    2015: the answers are always normalised, the annotators' never but for the punctuation, and
    that only where they differ: "a dog", "two" or "dog " among them can never be met.
    """

    def __init__(self, answers: Sequence[str], revision: Revision = 2018) -> None:
        self.revision = revision
        self._as_they_are = _positions(clean_space(answer) for answer in answers)
        self._normalised = _positions(normalise_answer(answer) for answer in answers)
        # What was written -> its text where all agree, and the equal answers where they differ.
        self._known: dict[str, tuple[str, list[int]]] = {}

    def of(self, given: Sequence[str]) -> list[int]:
        """Positions of the equal answers, of all annotators of one question one after the other."""
        known = [self._known.get(text) or self._read(text) for text in given]
        texts = {text for text, _ in known}
        if len(texts) == 1:
            forms = self._as_they_are if self.revision == 2018 else self._normalised
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
