"""Robustness of VQA models: accuracy under noise of increasing level, and R_score.

Noise sources disturb questions (`basic_questions`, `bqd_noise`, `vqabq`, `word_shuffling`,
`rephrasing`) or images (`image_noise`); `noise` has their protocols.
`RobustnessCallback` asks a model every question at every level; `NoiseCurve` computes the figures,
and `paired_differences` compares two models. The method is that of "A Novel Framework for
Robustness Analysis of Visual QA Models" (Huang et al., AAAI 2019), cited as [ROB].
"""

from ivqa.robustness.augmentation import NoiseAugmentation
from ivqa.robustness.basic_questions import BasicQuestionNoise
from ivqa.robustness.bqd_noise import BQDNoise
from ivqa.robustness.callback import RobustnessCallback
from ivqa.robustness.image_noise import (
    Blur,
    GaussianNoise,
    JPEGCompression,
    MotionBlur,
    Occlusion,
    SaltAndPepper,
)
from ivqa.robustness.noise import JointNoise, Noise
from ivqa.robustness.rephrasing import Rephrasing
from ivqa.robustness.vqabq import VQABQ
from ivqa.robustness.word_shuffling import WordShuffling

__all__ = [
    "VQABQ",
    "BQDNoise",
    "BasicQuestionNoise",
    "Blur",
    "GaussianNoise",
    "JPEGCompression",
    "JointNoise",
    "MotionBlur",
    "Noise",
    "NoiseAugmentation",
    "Occlusion",
    "Rephrasing",
    "RobustnessCallback",
    "SaltAndPepper",
    "WordShuffling",
]
