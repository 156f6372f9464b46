"""Rankers by text metrics: each scores a main question against the whole pool with arrays."""

from ivqa.ranking.text_metrics.bleu import BleuRanker
from ivqa.ranking.text_metrics.cider import CiderRanker
from ivqa.ranking.text_metrics.meteor import MeteorRanker
from ivqa.ranking.text_metrics.ranker import TextMetricRanker
from ivqa.ranking.text_metrics.rouge_l import RougeLRanker

__all__ = ["BleuRanker", "CiderRanker", "MeteorRanker", "RougeLRanker", "TextMetricRanker"]
