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
from ivqa.ranking.text_metrics import BleuRanker, CiderRanker, MeteorRanker, RougeLRanker

__all__ = [
    "BleuRanker",
    "CiderRanker",
    "CosineRanker",
    "LassoQuestionRanker",
    "LassoRanker",
    "MeteorRanker",
    "QuestionRanker",
    "RandomRanker",
    "Ranking",
    "RougeLRanker",
    "duplicates_of",
    "unique_questions",
]
