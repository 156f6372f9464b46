"""Metrics: VQA accuracy, caption metrics, diversity, oracle consistency and R_score."""

from ivqa.metrics.agreement import krippendorff_alpha, krippendorff_interval
from ivqa.metrics.bootstrap import interval, resampled_means, with_ends
from ivqa.metrics.captions.best_match import Matches
from ivqa.metrics.captions.bleu import bleu, bleu_scores
from ivqa.metrics.captions.captions import caption_metrics
from ivqa.metrics.captions.cider import CiderStatistics, cider, cider_scores
from ivqa.metrics.captions.meteor import meteor_nltk, meteor_scores, meteor_stages
from ivqa.metrics.captions.rouge_l import rouge_l, rouge_l_scores
from ivqa.metrics.correlation import COEFFICIENTS, correlation, correlation_interval
from ivqa.metrics.diversity import question_diversity, self_bleu
from ivqa.metrics.expected_cider import expected_cider
from ivqa.metrics.mcnemar import mcnemar
from ivqa.metrics.oracle_consistency import oracle_consistency, verdict
from ivqa.metrics.prediction_powered import prediction_powered
from ivqa.metrics.r_score import PUBLISHED_R_SCORE, RScore, r_score
from ivqa.metrics.vqa_accuracy import VQAAccuracy, vqa_accuracies
from ivqa.metrics.wups import wup_similarity, wups

__all__ = [
    "COEFFICIENTS",
    "PUBLISHED_R_SCORE",
    "CiderStatistics",
    "Matches",
    "RScore",
    "VQAAccuracy",
    "bleu",
    "bleu_scores",
    "caption_metrics",
    "cider",
    "cider_scores",
    "correlation",
    "correlation_interval",
    "expected_cider",
    "interval",
    "krippendorff_alpha",
    "krippendorff_interval",
    "mcnemar",
    "meteor_nltk",
    "meteor_scores",
    "meteor_stages",
    "oracle_consistency",
    "prediction_powered",
    "question_diversity",
    "r_score",
    "resampled_means",
    "rouge_l",
    "rouge_l_scores",
    "self_bleu",
    "verdict",
    "vqa_accuracies",
    "with_ends",
    "wup_similarity",
    "wups",
]
