"""Ranking of basic questions by their similarity to a main question."""

from ivqa.ranking.lasso import LassoRanker, Ranking

__all__ = ["LassoRanker", "Ranking"]
