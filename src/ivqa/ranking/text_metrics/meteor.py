"""METEOR of every question of a pool with main questions as references."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from ivqa.metrics.captions.meteor import meteor_stages, stem, synonyms
from ivqa.ranking.text_metrics.ranker import TextMetricRanker
from ivqa.ranking.text_metrics.word_columns import WordColumns, bit_counts

_ALPHA, _BETA, _GAMMA = 0.9, 3, 0.5  # Lavie and Agarwal 2007, NLTK's defaults


@dataclass(frozen=True)
class MeteorRanker(TextMetricRanker):
    """METEOR as `ivqa.metrics.meteor_nltk` computes it, not METEOR 1.5 of the COCO evaluation.

    Attributes:
        stages: The stages that this machine can run, "exact+stem" or "exact+stem+synonym". It
            cannot be chosen; a stored ranking depends on it, so it is a field.
    """

    version: ClassVar[int] = 1

    stages: str = field(init=False, default_factory=lambda: "+".join(meteor_stages()))

    @override
    def scores(self, pool: Sequence[Sequence[str]]) -> "_MeteorScores":
        return _MeteorScores(pool)


class _MeteorScores:
    """METEOR of the N tokenised questions of a pool as hypotheses."""

    def __init__(self, pool: Sequence[Sequence[str]]) -> None:
        self.words = WordColumns(pool)
        # For each stage a map from a word of a reference to the words of the pool that it matches.
        self.exact = _inverse(self.words.numbers, lambda word: [word])
        self.stems = _inverse(self.words.numbers, lambda word: [stem(word)])
        self.synonyms = _inverse(self.words.numbers, lambda word: synonyms(stem(word)))

    def __call__(self, references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Scores (B, N) for B tokenised main questions as references."""
        scores = np.empty((len(references), len(self.words)))
        for row, reference in enumerate(references):
            scores[row] = self.words.in_pool_order(self._score(reference))
        return scores

    def _score(self, reference: Sequence[str]) -> NDArray[np.float64]:
        """Scores (N,) for one reference."""
        matched, chunks = self._alignment(reference)
        score = np.zeros(len(matched))
        # Questions without a match keep score 0; the equation would divide by 0.
        some = np.flatnonzero(matched)
        matched, chunks = matched[some], chunks[some]
        precision, recall = matched / self.words.lengths[some], matched / max(len(reference), 1)
        # The equation of `ivqa.metrics.meteor_nltk`.
        mean = precision * recall / (_ALPHA * precision + (1 - _ALPHA) * recall)
        score[some] = (1 - _GAMMA * (chunks / matched) ** _BETA) * mean
        return score

    def _alignment(self, reference: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Numbers of matched words and of chunks, two (N,).

        Words are aligned as in NLTK: stage by stage, from the last word of the hypothesis to the
        first, each word takes the last free word of the reference that it matches.
        """
        stems = [stem(word) for word in reference]  # NLTK looks up the synonyms of stems
        stages = [
            self.words.masks(reference, self.exact),
            self.words.masks(stems, self.stems),
            self.words.masks(stems, self.synonyms),
        ]
        used = np.zeros(len(self.words), dtype=stages[0].dtype)
        partners = [np.zeros(len(column), used.dtype) for column in self.words.columns]
        for masks in stages:
            for partner, column in zip(partners, self.words.columns, strict=True):
                wanted = masks[column]
                rows = np.flatnonzero(wanted)  # few: most words match nothing
                rows = rows[partner[rows] == 0]
                free = wanted[rows] & ~used[rows]
                last = free & -free  # the lowest bit is the last word
                partner[rows] = last
                used[rows] |= last
        matched = bit_counts(used)
        # Each joint merges two chunks.
        return matched, matched - self._joints(partners)

    def _joints(self, partners: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        """How many pairs of neighbours match neighbours in the reference, (N,)."""
        joints = np.zeros(len(self.words), dtype=np.int64)
        # Columns run from the last word to the first: `after` holds the words that follow `before`.
        for after, before in pairwise(partners):
            follows = after[: len(before)]
            # Bits run from the last word, too: the word behind bit t is bit t - 1.
            joints[: len(before)] += (follows != 0) & (follows == before >> 1)
        return joints


def _inverse(
    numbers: Mapping[str, int], keys: Callable[[str], Iterable[str]]
) -> Mapping[str, list[int]]:
    """For each key the numbers of the words that have it."""
    inverse: defaultdict[str, list[int]] = defaultdict(list)
    for word, number in numbers.items():
        for key in keys(word):
            inverse[key].append(number)
    return dict(inverse)
