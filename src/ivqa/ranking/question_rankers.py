"""From texts to rankings: which questions of a pool are nearest to each main question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ivqa.ranking.lasso import LassoRanker, Ranking
from ivqa.text.encoders import SentenceEncoder
from ivqa.text.tokens import tokenise


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
    same, lam = alpha * d; give one of the two.
    """

    encoder: SentenceEncoder
    lam: float | None = 1e-6
    alpha: float | None = None
    positive: bool = True
    intercept: bool = False

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        """The k best of the pool, certified. Raises ValueError unless one weight is given."""
        if (self.lam is None) == (self.alpha is None):
            raise ValueError("the LASSO ranker takes lam or alpha, one of the two")
        vectors = self.encoder.fit(pool).encode(pool)
        lam = self.lam if self.lam is not None else float(self.alpha or 0) * vectors.shape[1]
        ranker = LassoRanker(vectors, lam, self.positive, intercept=self.intercept)
        return ranker.rank(self.encoder.encode(questions), k, exclude)


@dataclass(frozen=True)
class CosineRanker:
    """The cosine of sentence embeddings, one by one: what LASSO is to be compared with."""

    encoder: SentenceEncoder

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        """The k most similar of the pool; scores are cosines, gap is zero: nothing is solved."""
        vectors = self.encoder.fit(pool).encode(pool)
        products = self.encoder.encode(questions) @ vectors.T
        for row, rows in enumerate(exclude):
            products[row, list(rows)] = -np.inf
        return _best(products, k)


@dataclass(frozen=True)
class RandomRanker:
    """Any questions of the pool: the control that a ranking must be told from."""

    seed: int = 0

    def rank(
        self,
        questions: Sequence[str],
        pool: Sequence[str],
        k: int,
        exclude: Sequence[Sequence[int]],
    ) -> Ranking:
        """K different rows of the pool, at random; all scores are zero."""
        rng = np.random.default_rng(self.seed)
        indices = np.empty((len(questions), k), dtype=np.int64)
        for row, rows in enumerate(exclude):
            allowed = np.setdiff1d(np.arange(len(pool)), rows)
            if len(allowed) < k:
                raise ValueError(f"only {len(allowed)} questions to rank, but k is {k}")
            indices[row] = rng.choice(allowed, k, replace=False)
        nothing = np.zeros(len(questions))
        return Ranking(indices, np.zeros(indices.shape, "f4"), nothing, nothing.astype(np.int64), 0)


def unique_questions(questions: Sequence[str]) -> list[str]:
    """The questions that differ in their words, in order of first occurrence.

    >>> unique_questions(["Is it red?", "is it red", "Why?"])
    ['Is it red?', 'Why?']
    """
    first: dict[tuple[str, ...], str] = {}
    for question in questions:
        first.setdefault(tuple(tokenise(question)), question)
    return list(first.values())


def duplicates_of(questions: Sequence[str], pool: Sequence[str]) -> list[list[int]]:
    """For each main question the rows of the pool with the same words.

    They must be excluded: LASSO would put all its weight there [IJCV, Table 8].
    """
    rows: dict[tuple[str, ...], list[int]] = {}
    for row, question in enumerate(pool):
        rows.setdefault(tuple(tokenise(question)), []).append(row)
    return [rows.get(tuple(tokenise(question)), []) for question in questions]


def _best(values: NDArray[np.floating], k: int) -> Ranking:
    if values.shape[1] < k:
        raise ValueError(f"only {values.shape[1]} questions to rank, but k is {k}")
    indices = np.argsort(-values, axis=1, kind="stable")[:, :k]
    scores = np.take_along_axis(values, indices, axis=1).astype(np.float32)
    size = len(values)
    return Ranking(indices, scores, np.zeros(size), (scores > 0).sum(axis=1), 0)
