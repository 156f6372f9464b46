"""Metrics: linguistic ones of the iVQA benchmark, diversity, consistency with the oracle."""

from ivqa.metrics.bleu import bleu
from ivqa.metrics.captions import CaptionMetrics, caption_metrics
from ivqa.metrics.cider import CiderStatistics, cider, cider_scores
from ivqa.metrics.diversity import QuestionDiversity, question_diversity, self_bleu
from ivqa.metrics.meteor import meteor_nltk, meteor_stages
from ivqa.metrics.oracle_consistency import (
    VERDICTS,
    JudgementLike,
    OracleConsistency,
    oracle_consistency,
    verdict,
)
from ivqa.metrics.rouge_l import rouge_l

__all__ = [
    "VERDICTS",
    "CaptionMetrics",
    "CiderStatistics",
    "JudgementLike",
    "OracleConsistency",
    "QuestionDiversity",
    "bleu",
    "caption_metrics",
    "cider",
    "cider_scores",
    "meteor_nltk",
    "meteor_stages",
    "oracle_consistency",
    "question_diversity",
    "rouge_l",
    "self_bleu",
    "verdict",
]
