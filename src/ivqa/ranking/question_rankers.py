"""From texts to rankings: which questions of a pool are nearest to each main question."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ivqa.encoders.encoder import SentenceEncoder
from ivqa.errors import UserError
from ivqa.lasso.ranking import OnUncertified, Ranking
from ivqa.ranges import OpenShare, Positive, Seed
from ivqa.ranking.deduplication import Distinct
from ivqa.ranking.lasso_ranker import LassoRanker
from ivqa.ranking.score_ranking import rank_by_scores


class QuestionRanker(Protocol):
    """Ranks a pool of basic questions for main questions."""

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        """The k best rows of the pool for each of B main questions, without those excluded."""


@dataclass(frozen=True)
class LassoQuestionRanker:
    """LASSO over sentence embeddings [ROB 3]; see `LassoRanker`.

    encoder: fitted on the pool. lam: weight of the l1 norm. alpha: scikit-learn's parameter of the
    same, lam = alpha * d; give one of the two. deduplicate: cosine over which questions of the
    pool are one, for which the first stands; None keeps all. on_uncertified: whether rankings whose
    duality gap stays over 1e-6 end in a warning or in an error.
    """

    encoder: SentenceEncoder
    lam: Positive | None = 1e-6
    alpha: Positive | None = None
    positive: bool = True
    intercept: bool = False
    deduplicate: OpenShare | None = None
    on_uncertified: OnUncertified = "warn"

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Raises UserError unless one weight is given; before a command starts, too."""
        if (arguments["lam"] is None) == (arguments["alpha"] is None):
            raise UserError("the LASSO ranker takes lam or alpha, one of the two")

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        """The k best of the pool, certified.

        Raises UserError unless one weight is given, and for uncertified rankings where
        on_uncertified is "error".
        """
        self.check_arguments(vars(self))
        encoder, distinct, ranker = _lasso(self, tuple(pool))
        ranking = ranker.rank(_vectors(encoder, questions), k, distinct.exclude(exclude))
        return distinct.restored(ranking)


@dataclass(frozen=True)
class CosineRanker:
    """The cosine of sentence embeddings, one by one: what LASSO is to be compared with.

    deduplicate: as for LASSO.
    """

    encoder: SentenceEncoder
    deduplicate: OpenShare | None = None

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        """The k most similar of the pool; scores are cosines, gap is zero: nothing is solved."""
        encoder, distinct, vectors = _encoded(self.encoder, tuple(pool), self.deduplicate)
        main = _vectors(encoder, questions)
        ranking = rank_by_scores(
            lambda part: main[part] @ vectors.T,
            (len(main), len(vectors)),
            k,
            distinct.exclude(exclude),
            rows_at_once=256,  # each product reads all vectors of the pool
        )
        return distinct.restored(ranking)


@dataclass(frozen=True)
class RandomRanker:
    """Any questions of the pool: the control that a ranking must be told from."""

    seed: Seed = 0

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        """K different rows of the pool, at random; all scores are zero."""
        indices = np.empty((len(questions), k), dtype=np.int64)
        for row, rows in enumerate(exclude):
            # By the question, so that it does not matter which others it is ranked with.
            rng = np.random.default_rng([self.seed, crc32(questions[row].encode())])
            allowed = np.setdiff1d(np.arange(len(pool)), rows)
            if len(allowed) < k:
                raise UserError(f"only {len(allowed)} questions to rank, but k is {k}")
            indices[row] = rng.choice(allowed, k, replace=False)
        nothing = np.zeros(len(questions))
        return Ranking(indices, np.zeros(indices.shape, "f4"), nothing, nothing.astype(np.int64), 0)


def _vectors(encoder: SentenceEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors (N, d) of the texts. Raises UserError naming one that is not finite."""
    vectors = encoder.encode(texts)
    finite = np.isfinite(vectors.sum(axis=1))
    if not finite.all():
        raise UserError(
            f"the vector of '{texts[int(finite.argmin())]}' is not finite; check the encoder"
        )
    return vectors


# The last pool stays: the questions of a large set are ranked part by part, and preparing the pool
# takes longer than ranking one part.
@lru_cache(maxsize=1)
def _encoded(
    encoder: SentenceEncoder, pool: tuple[str, ...], deduplicate: float | None
) -> tuple[SentenceEncoder, Distinct, NDArray[np.float32]]:
    """An encoder of its own fitted on the pool, and the vectors of its distinct questions."""
    fitted = copy(encoder).fit(pool)
    vectors = _vectors(fitted, pool)
    distinct = Distinct.of(vectors, deduplicate)
    return fitted, distinct, distinct.select(vectors)


@lru_cache(maxsize=1)
def _lasso(
    settings: LassoQuestionRanker, pool: tuple[str, ...]
) -> tuple[SentenceEncoder, Distinct, LassoRanker]:
    encoder, distinct, vectors = _encoded(settings.encoder, pool, settings.deduplicate)
    alpha, lam = settings.alpha, settings.lam
    lam = lam if lam is not None else float(alpha or 0) * vectors.shape[1]
    ranker = LassoRanker(
        vectors,
        lam,
        settings.positive,
        intercept=settings.intercept,
        on_uncertified=settings.on_uncertified,
    )
    return encoder, distinct, ranker
