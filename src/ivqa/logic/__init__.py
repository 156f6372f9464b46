"""What follows from an answer, and which answers cannot all be true: plain English, no oracle."""

from ivqa.logic.contradictions import Contradiction, contradicting, contradictions
from ivqa.logic.follow_ups import follow_ups
from ivqa.logic.implications import Implication, family, implications, presuppositions
from ivqa.logic.statements import unclear
from ivqa.logic.worlds import PictureAnswers, Suspicion, errors_at_least, left_out, suspicions

__all__ = [
    "Contradiction",
    "Implication",
    "PictureAnswers",
    "Suspicion",
    "contradicting",
    "contradictions",
    "errors_at_least",
    "family",
    "follow_ups",
    "implications",
    "left_out",
    "presuppositions",
    "suspicions",
    "unclear",
]
