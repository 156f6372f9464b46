"""ROUGE-L of main questions with every question of a pool."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ivqa.metrics.rouge_l import BETA
from ivqa.ranking.text_metrics.ranker import TextMetricRanker
from ivqa.ranking.text_metrics.word_columns import WordColumns, bit_counts


@dataclass(frozen=True)
class RougeLRanker(TextMetricRanker):
    """ROUGE-L: F of the longest common subsequence, beta = 1.2."""

    def scores(self, pool: Sequence[Sequence[str]]) -> "RougeLScores":
        """ROUGE-L in [0, 1] with each of the N questions of the pool."""
        return RougeLScores(pool)


class RougeLScores:
    """ROUGE-L of hypotheses, the N questions of a pool, for references given later."""

    def __init__(self, pool: Sequence[Sequence[str]]) -> None:
        # The COCO evaluation splits an empty text into one empty word.
        self.words = WordColumns([words or [""] for words in pool])
        self.same = {word: [number] for word, number in self.words.numbers.items()}

    def __call__(self, references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Scores (B, N)."""
        scores = np.empty((len(references), len(self.words)))
        for row, reference in enumerate(references):
            wanted = reference or [""]
            common = self._common_subsequences(wanted)
            precision, recall = common / self.words.lengths, common / len(wanted)
            weighted = recall + BETA**2 * precision
            score = np.zeros(len(common))
            np.divide((1 + BETA**2) * precision * recall, weighted, out=score, where=weighted > 0)
            scores[row] = self.words.in_pool_order(score)
        return scores

    def _common_subsequences(self, reference: Sequence[str]) -> NDArray[np.int64]:
        """Lengths of the longest ones, (N,): the bit-parallel algorithm of Hyyro (2004).

        A column of the dynamic programme is one integer a pair, of a bit a word of the reference,
        which is zero where the column goes up.
        """
        masks = self.words.masks(reference, self.same)
        every = (1 << len(reference)) - 1
        state = np.full(len(self.words), every, dtype=masks.dtype)
        for column in self.words.columns:
            part = state[: len(column)]
            matched = part & masks[column]
            part[:] = (part + matched) | (part - matched)
        return len(reference) - bit_counts(state & every)
