"""Ranking of basic questions by their similarity to a main question, and the files of rankings."""

from ivqa.lasso import Ranking
from ivqa.ranking.pools import general_questions, questions_of_answer_type
from ivqa.ranking.question_rankers import (
    CosineRanker,
    LassoQuestionRanker,
    LassoRanker,
    RandomRanker,
)
from ivqa.ranking.score_ranking import rank_by_scores
from ivqa.ranking.text_metrics import BleuRanker, CiderRanker, MeteorRanker, RougeLRanker

__all__ = [
    "BleuRanker",
    "CiderRanker",
    "CosineRanker",
    "LassoQuestionRanker",
    "LassoRanker",
    "MeteorRanker",
    "RandomRanker",
    "Ranking",
    "RougeLRanker",
    "general_questions",
    "questions_of_answer_type",
    "rank_by_scores",
]
