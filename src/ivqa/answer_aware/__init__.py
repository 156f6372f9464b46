"""Question generators that use a VQA model."""

from ivqa.answer_aware.dual_module import DualModule
from ivqa.answer_aware.minimum_risk import ConsensusQuestioner
from ivqa.answer_aware.reranking import RerankedQuestioner
from ivqa.answer_aware.served_questioner import ServedQuestioner

__all__ = ["ConsensusQuestioner", "DualModule", "RerankedQuestioner", "ServedQuestioner"]
