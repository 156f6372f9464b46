"""ROUGE-L of every question of a pool with main questions as references."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from ivqa.metrics.captions.rouge_l import BETA
from ivqa.ranking.text_metrics.ranker import TextMetricRanker
from ivqa.ranking.text_metrics.word_columns import WordColumns, bit_counts


@dataclass(frozen=True)
class RougeLRanker(TextMetricRanker):
    """ROUGE-L: the F measure of the longest common subsequence, with beta = 1.2."""

    version: ClassVar[int] = 1

    @override
    def scores(self, pool: Sequence[Sequence[str]]) -> "_RougeLScores":
        return _RougeLScores(pool)


class _RougeLScores:
    """ROUGE-L of the N tokenised questions of a pool as hypotheses."""

    def __init__(self, pool: Sequence[Sequence[str]]) -> None:
        # The COCO evaluation splits an empty text into one empty word.
        self.words = WordColumns([words or [""] for words in pool])
        self.same = {word: [number] for word, number in self.words.numbers.items()}

    def __call__(self, references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Scores (B, N) for B tokenised main questions as references."""
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
        """Lengths of the longest common subsequences, (N,), by Hyyro's bit-parallel method (2004).

        A column of the dynamic programme is one integer for each question of the pool. It has one
        bit for each word of the reference, which is 0 where the length increases.
        """
        masks = self.words.masks(reference, self.same)
        every = (1 << len(reference)) - 1
        state = np.full(len(self.words), every, dtype=masks.dtype)
        # Both texts are read from the end, which does not change the length of a subsequence.
        for column in self.words.columns:
            # Questions are sorted by length: only the first ones have a word here.
            part = state[: len(column)]
            matched = part & masks[column]
            # Hyyro's V' = (V + (V & M)) | (V & ~M); the subtraction gives the second term.
            part[:] = (part + matched) | (part - matched)
        # Carries beyond the reference's bits do not count.
        return len(reference) - bit_counts(state & every)
