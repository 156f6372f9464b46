"""Ranking of basic questions by their similarity to a main question, and the files of rankings."""

from ivqa.lasso import TOLERANCE, OnUncertified, Ranking
from ivqa.ranking.bqd_files import (
    read_bqd,
    read_parquet,
    scores_of,
    write_parquet,
    write_records,
)
from ivqa.ranking.bqd_merging import merge_shards
from ivqa.ranking.bqd_ranking import BQDRanking
from ivqa.ranking.pools import (
    general_questions,
    questions_of_answer_type,
    with_answers,
    with_main_answers,
)
from ivqa.ranking.question_rankers import (
    CosineRanker,
    LassoQuestionRanker,
    LassoRanker,
    QuestionRanker,
    RandomRanker,
)
from ivqa.ranking.score_ranking import rank_by_scores
from ivqa.ranking.text_metrics import BleuRanker, CiderRanker, MeteorRanker, RougeLRanker

__all__ = [
    "TOLERANCE",
    "BQDRanking",
    "BleuRanker",
    "CiderRanker",
    "CosineRanker",
    "LassoQuestionRanker",
    "LassoRanker",
    "MeteorRanker",
    "OnUncertified",
    "QuestionRanker",
    "RandomRanker",
    "Ranking",
    "RougeLRanker",
    "general_questions",
    "merge_shards",
    "questions_of_answer_type",
    "rank_by_scores",
    "read_bqd",
    "read_parquet",
    "scores_of",
    "with_answers",
    "with_main_answers",
    "write_parquet",
    "write_records",
]
