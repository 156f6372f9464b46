"""Ranking of basic questions by their similarity to a main question."""

from ivqa.ranking.lasso import LassoRanker, Ranking
from ivqa.ranking.question_rankers import (
    CosineRanker,
    LassoQuestionRanker,
    QuestionRanker,
    RandomRanker,
    duplicates_of,
    unique_questions,
)

__all__ = [
    "CosineRanker",
    "LassoQuestionRanker",
    "LassoRanker",
    "QuestionRanker",
    "RandomRanker",
    "Ranking",
    "duplicates_of",
    "unique_questions",
]
