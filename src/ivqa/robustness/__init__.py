"""Robustness: how a VQA model's accuracy falls as questions are disturbed, and its R_score."""

from ivqa.robustness.callback import RobustnessCallback
from ivqa.robustness.curve import NoiseCurve
from ivqa.robustness.noise import BasicQuestionNoise, Noise, WordShuffling

__all__ = ["BasicQuestionNoise", "Noise", "NoiseCurve", "RobustnessCallback", "WordShuffling"]
