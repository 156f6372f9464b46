"""What the rankers by text metrics share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ivqa.lasso.ranking import Ranking
from ivqa.ranking.score_ranking import rank_by_scores
from ivqa.text.tokens import tokenise

# From B main questions as words to their scores with the N of a pool, (B, N).
PoolScores = Callable[[Sequence[Sequence[str]]], NDArray[np.float64]]


class TextMetricRanker(ABC):
    """Direct similarity of words [IJCV]: each basic question by itself, without an encoder.

    The main question is the reference and the basic question the hypothesis: what is scored is how
    well the one stands in for the other. The papers leave the direction open.
    """

    @abstractmethod
    def scores(self, pool: Sequence[Sequence[str]]) -> PoolScores:
        """What scores main questions with a pool of N tokenised questions."""

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        """The k of highest score, of equal ones the first of the pool; gap is zero.

        Raises ValueError where the pool without the excluded rows is smaller than k.
        """
        words = [tokenise(question) for question in questions]
        scores = pool_scores(self, tuple(pool))
        return rank_by_scores(
            lambda part: scores(words[part]),
            (len(questions), len(pool)),
            k,
            exclude,
        )


@lru_cache(maxsize=1)  # the parts of a job share their pool
def pool_scores(ranker: TextMetricRanker, pool: tuple[str, ...]) -> PoolScores:
    """The ranker's scores with a pool of questions as they are written; the last stays."""
    return ranker.scores([tokenise(question) for question in pool])
