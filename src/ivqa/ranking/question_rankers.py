"""Rankers of questions as texts: they encode, solve or compare, and return rows of the pool."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from ivqa.device import fastest_dtype
from ivqa.encoders.encoder import SentenceEncoder
from ivqa.errors import UserError
from ivqa.lasso import LassoSolver, OnUncertified, Ranking, SolverSettings, UncertifiedError
from ivqa.ranges import NO_EFFECT, OpenShare, Positive, Seed
from ivqa.ranking.deduplication import Distinct
from ivqa.ranking.score_ranking import Excluded, rank_by_scores

_UNIT = 1e-3  # the square of a unit vector may differ from 1 by so much: float16 has 1e-3


class QuestionRanker(Protocol):
    """Ranks a pool of basic questions for main questions."""

    def rank(
        self, questions: Sequence[str], pool: Sequence[str], k: int, exclude: Excluded
    ) -> Ranking:
        """Ranks the pool for each main question.

        Args:
            questions: B main questions.
            pool: N basic questions.
            k: Length of the rankings.

        Returns:
            The k best rows of each main question.
        """


class LassoRanker(LassoSolver):
    """Ranks a pool of basic questions by LASSO [ROB 3], by default with x >= 0.

    The papers have no sign on x: positive=False. Questions are then ranked by x, and those with
    x < 0 come after all others, with score 0.

    Args:
        *problem: pool, lam and positive of `LassoSolver`.
        device: Where it solves, see `LassoSolver`.
        settings: Those of `LassoSolver`. Where `screening` is None, it is the fastest number
            format of the device; certificates hold for each.
        **options: The other arguments of `LassoSolver`. With intercept=True each vector is centred
            over its d coordinates, as the published code did.

    Raises:
        ValueError: As for `LassoSolver`.
    """

    def __init__(
        self,
        *problem: Any,
        device: Annotated[str, NO_EFFECT] = "cpu",
        settings: SolverSettings | None = None,
        **options: Any,
    ) -> None:
        settings = settings or SolverSettings()
        # The solver stands on its own and does not know which formats a device multiplies fast.
        settings = replace(settings, screening=settings.screening or fastest_dtype(device))
        super().__init__(*problem, device=device, settings=settings, **options)

    @override
    def rank(
        self,
        vectors: NDArray[np.float32],
        k: int = 21,
        exclude: Sequence[Sequence[int]] | None = None,
    ) -> Ranking:
        try:
            return super().rank(vectors, k, exclude)
        except UncertifiedError as error:
            # Commands print a UserError as one line, without a traceback.
            raise UserError(str(error)) from error


@dataclass(frozen=True)
class LassoQuestionRanker:
    """LASSO over sentence embeddings [ROB 3], solved by `LassoRanker`.

    Args:
        encoder: Sentence encoder; a copy of it is fitted on the pool.
        lam: Weight of |x|_1. Give either lam or alpha.
        alpha: The same weight as scikit-learn defines it: lam = alpha * d with d dimensions.
        positive: Whether x >= 0; False frees the signs, as in the papers' equation.
        intercept: Whether each vector is centred over its coordinates.
        deduplicate: Questions of the pool whose cosine exceeds this number in (0, 1) count as one,
            represented by the first; None keeps all.
        on_uncertified: "warn" or "error" for rankings whose relative duality gap stays over 1e-6.
    """

    version: ClassVar[int] = 1

    encoder: SentenceEncoder
    lam: Positive | None = 1e-6
    alpha: Positive | None = None
    positive: bool = True
    intercept: bool = False
    deduplicate: OpenShare | None = None
    on_uncertified: OnUncertified = "warn"

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Raises UserError unless one weight is given; commands call it before they start."""
        if (arguments["lam"] is None) == (arguments["alpha"] is None):
            raise UserError("the LASSO ranker takes lam or alpha, one of the two")

    def rank(
        self, questions: Sequence[str], pool: Sequence[str], k: int, exclude: Excluded
    ) -> Ranking:
        """Ranks the pool by LASSO, with certificates; see `QuestionRanker.rank`.

        Raises:
            UserError: Not exactly one weight is given, a vector is not finite, or rankings are
                uncertified and on_uncertified is "error".
        """
        self.check_arguments(vars(self))
        encoder, distinct, ranker = _lasso(self, tuple(pool))
        ranking = ranker.rank(_vectors(encoder, questions), k, distinct.exclude(exclude))
        return distinct.restored(ranking)


@dataclass(frozen=True)
class CosineRanker:
    """The cosine of sentence embeddings: the baseline of LASSO.

    Args:
        encoder: Sentence encoder; a copy of it is fitted on the pool.
        deduplicate: Questions of the pool whose cosine exceeds this number in (0, 1) count as one;
            None keeps all.
    """

    version: ClassVar[int] = 1

    encoder: SentenceEncoder
    deduplicate: OpenShare | None = None

    def rank(
        self, questions: Sequence[str], pool: Sequence[str], k: int, exclude: Excluded
    ) -> Ranking:
        """Ranks the pool by cosine; see `QuestionRanker.rank`.

        Scores are cosines. The gap is 0, because no problem is solved.
        """
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
    """Random questions of the pool: the control.

    Args:
        seed: Seed of the random numbers, combined with the text of each main question.
    """

    version: ClassVar[int] = 1

    seed: Seed = 0

    def rank(
        self, questions: Sequence[str], pool: Sequence[str], k: int, exclude: Excluded
    ) -> Ranking:
        """Draws k different rows of the pool at random, with score 0; see `QuestionRanker.rank`.

        Raises:
            UserError: Fewer than k rows are left.
        """
        indices = np.empty((len(questions), k), dtype=np.int64)
        for row, rows in enumerate(exclude):
            # Seeded by the question: its ranking does not depend on the others of the call.
            rng = np.random.default_rng([self.seed, crc32(questions[row].encode())])
            allowed = np.setdiff1d(np.arange(len(pool)), rows)
            if len(allowed) < k:
                raise UserError(f"only {len(allowed)} questions to rank, but k is {k}")
            indices[row] = rng.choice(allowed, k, replace=False)
        return Ranking(indices)


def _vectors(encoder: SentenceEncoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors (N, d) of the texts; raises UserError if one is not finite, or not unit or 0."""
    vectors = encoder.encode(texts)
    # A row's square is finite only if all its numbers are, and needs no (N, d) mask.
    squares = np.einsum("nd,nd->n", vectors, vectors)
    fits = (np.abs(squares - 1) < _UNIT) | (squares == 0)
    if not fits.all():
        row = int(fits.argmin())
        fault = f"has length {squares[row] ** 0.5:g}, not 1; scale it in encode()"
        if not np.isfinite(squares[row]):
            fault = "is not finite; check the encoder"
        raise UserError(f"{type(encoder).__name__}: the vector of '{texts[row]}' {fault}")
    return vectors


# The last pool stays in memory: a large set of main questions is ranked part by part, and preparing
# the pool takes longer than ranking one part.
@lru_cache(maxsize=1)
def _encoded(
    encoder: SentenceEncoder, pool: tuple[str, ...], deduplicate: float | None
) -> tuple[SentenceEncoder, Distinct, NDArray[np.float32]]:
    """A copy of the encoder fitted on the pool, the distinct questions, and their vectors."""
    # The encoder is a key of the cache, so it must not change.
    fitted = copy(encoder).fit(pool)
    vectors = _vectors(fitted, pool)
    distinct = Distinct.of(vectors, deduplicate)
    return fitted, distinct, distinct.select(vectors)


@lru_cache(maxsize=1)
def _lasso(
    settings: LassoQuestionRanker, pool: tuple[str, ...]
) -> tuple[SentenceEncoder, Distinct, LassoRanker]:
    """A fitted encoder, the distinct questions of the pool, and a LASSO ranker of them."""
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
