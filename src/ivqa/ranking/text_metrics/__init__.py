"""Rankers by text metrics in bulk: a main question against the whole pool as array work."""

from ivqa.ranking.text_metrics.bleu import BleuRanker
from ivqa.ranking.text_metrics.cider import CiderRanker
from ivqa.ranking.text_metrics.meteor import MeteorRanker
from ivqa.ranking.text_metrics.ranker import TextMetricRanker
from ivqa.ranking.text_metrics.rouge_l import RougeLRanker

__all__ = ["BleuRanker", "CiderRanker", "MeteorRanker", "RougeLRanker", "TextMetricRanker"]
