"""The closed answer set A, and the VQA accuracy of each answer for a question."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from ivqa.errors import UserError
from ivqa.text.answer_matching import VQA_2018, AnswerMatching, AnswerRule


@dataclass(frozen=True)
class SoftTargets:
    """Accuracies and counts of the answers to N questions.

    Args:
        counts: How many annotators gave each answer, (N, |A|) float32.
        values: The accuracy of each answer in (0, 1], (N, |A|) float32, with the same entries.
    """

    counts: csr_array
    values: csr_array

    def dense(self, rows: NDArray[np.int64]) -> Tensor:
        """Returns the accuracies of the questions `rows` (B,) int64 as a tensor (B, |A|) float32.

        Example:
            >>> answers = AnswerVocabulary(["yes", "no"])
            >>> soft = answers.soft_targets([["yes"] * 8 + ["no"] * 2, ["red"]])
            >>> soft.dense(np.array([1, 0])).tolist()
            [[0.0, 0.0], [1.0, 0.6000000238418579]]
            >>> soft.dense_counts(np.array([1, 0])).tolist()
            [[0.0, 0.0], [8.0, 2.0]]
        """
        return torch.from_numpy(self.values[rows].toarray())

    def dense_counts(self, rows: NDArray[np.int64]) -> Tensor:
        """Returns the annotator counts of the questions `rows` (B,) int64 as (B, |A|) float32."""
        return torch.from_numpy(self.counts[rows].toarray())

    def __len__(self) -> int:
        return int(self.counts.shape[0])


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
        """Builds the vocabulary of the `size` most frequent main answers of the training questions.

        Equally frequent answers are ordered alphabetically. The published code of 2015 sorts
        (count, answer) in descending order and so keeps the last of them instead; this matters only
        among the answers with the lowest count that is kept.

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
        rule: AnswerRule = VQA_2018,
    ) -> SoftTargets:
        """Computes counts and accuracies of all answers of the vocabulary.

        Args:
            human_answers: The unprocessed answers of the annotators of each of N questions; a
                question without answers gets an empty row.
            rule: Decides which answers count as equal, and their accuracies.
        """
        counts = _matches(self.answers, human_answers, rule)
        values = csr_array(
            (_accuracies(counts, human_answers, rule), counts.indices, counts.indptr), counts.shape
        )
        return SoftTargets(counts.astype(np.float32), values.astype(np.float32))


def vqa_accuracies(
    predictions: Sequence[str],
    human_answers: Sequence[Sequence[str]],
    *,
    rule: AnswerRule = VQA_2018,
) -> NDArray[np.float64]:
    """Computes the accuracy of each predicted answer by the rule of an evaluation.

    By default it is VQA accuracy [Antol et al. 2015]: with ten annotators the official

        accuracy = mean over annotators i of min(1, matches among the other annotators / 3),

    with another number n min(matches / min(3, n), 1), for which there is no official formula.

    Args:
        predictions: N answers.
        human_answers: The annotators' answers to each of the N questions.
        rule: Which answers are equal, and what matches count. Papers before 2018 used `VQA_2015`;
            many report `VQA_SHORTCUT`, min(matches / 3, 1).

    Returns:
        (N,) float64 in [0, 1].

    Raises:
        ValueError: Predictions and questions differ in number.

    Example:
        >>> accuracies = vqa_accuracies(["2", "red"], [["2"] * 3 + ["3"] * 7, ["blue"]])
        >>> [round(float(accuracy), 2) for accuracy in accuracies]
        [0.9, 0.0]
    """
    if len(predictions) != len(human_answers):
        raise ValueError(
            f"{len(predictions)} predictions for {len(human_answers)} questions; give one each"
        )
    # Only the predictions can score, so they are the whole vocabulary.
    distinct = {answer: code for code, answer in enumerate(dict.fromkeys(predictions))}
    counts = _matches(list(distinct), human_answers, rule)
    rows = np.repeat(np.arange(len(predictions)), np.diff(counts.indptr))  # of each entry
    chosen = np.array([distinct[answer] for answer in predictions], dtype=np.int64)
    hits = counts.indices == chosen[rows]
    accuracies = np.zeros(len(predictions))
    accuracies[rows[hits]] = _accuracies(counts, human_answers, rule)[hits]
    return accuracies


def _matches(
    answers: Sequence[str], human_answers: Sequence[Sequence[str]], rule: AnswerRule
) -> csr_array:
    """How many of the annotators of each of N questions match each answer, (N, |A|) int64."""
    matching = AnswerMatching(answers, rule)
    found = [matching.of(given) for given in human_answers]
    lengths = np.array([len(positions) for positions in found], dtype=np.int64)
    rows = np.repeat(np.arange(len(found)), lengths)
    indices = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=len(rows))
    # Equal pairs (question, answer) are summed.
    return coo_array((np.ones_like(rows), (rows, indices)), (len(found), len(answers))).tocsr()


def _accuracies(
    counts: csr_array, human_answers: Sequence[Sequence[str]], rule: AnswerRule
) -> NDArray[np.float64]:
    """The accuracy of each entry of `counts`."""
    annotators = np.array([len(given) for given in human_answers], dtype=np.int64)
    return rule.worth(counts.data, np.repeat(annotators, np.diff(counts.indptr)))
