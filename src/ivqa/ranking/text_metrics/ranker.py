"""The base class of rankers by text metrics."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ivqa.lasso.ranking import Ranking
from ivqa.ranking.score_ranking import Excluded, rank_by_scores
from ivqa.text.tokens import tokenise

# Maps B tokenised main questions to their scores with the N questions of a pool, (B, N).
PoolScores = Callable[[Sequence[Sequence[str]]], NDArray[np.float64]]


class TextMetricRanker(ABC):
    """Ranks by a text metric of each basic question, without an encoder [IJCV].

    The main question is the reference and the basic question the hypothesis: the score says how
    well the basic question replaces the main question. The papers leave the direction open.
    """

    @abstractmethod
    def scores(self, pool: Sequence[Sequence[str]]) -> PoolScores:
        """Prepares a pool.

        Args:
            pool: N tokenised questions.

        Returns:
            A function that scores main questions with the pool.
        """

    def rank(
        self, questions: Sequence[str], pool: Sequence[str], k: int, exclude: Excluded
    ) -> Ranking:
        """Ranks the pool by the metric; see `QuestionRanker.rank` and `rank_by_scores`."""
        words = [tokenise(question) for question in questions]
        scores = pool_scores(self, tuple(pool))
        size = len(questions), len(pool)
        return rank_by_scores(lambda part: scores(words[part]), size, k, exclude)


@lru_cache(maxsize=1)  # the parts of a job share their pool
def pool_scores(ranker: TextMetricRanker, pool: tuple[str, ...]) -> PoolScores:
    """The scores of a (hashable) ranker with a pool of texts; the last pool stays in memory."""
    return ranker.scores([tokenise(question) for question in pool])
