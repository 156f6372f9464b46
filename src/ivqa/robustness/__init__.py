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
from ivqa.robustness.comparison import RIGHT, Flips, common_questions, flips_at, paired_differences
from ivqa.robustness.curve import NoiseCurve
from ivqa.robustness.image_noise import (
    Blur,
    GaussianNoise,
    ImageNoise,
    JPEGCompression,
    MotionBlur,
    Occlusion,
    SaltAndPepper,
)
from ivqa.robustness.noise import DisturbsImages, JointNoise, Noise
from ivqa.robustness.records import NoiseRecords
from ivqa.robustness.rephrasing import Rephrasing
from ivqa.robustness.vqabq import (
    VQABQ,
    BestBasicQuestions,
    ThresholdSearch,
    differs_when_independent,
    helpful_counts,
    selection_figures,
)
from ivqa.robustness.word_shuffling import WordShuffling

__all__ = [
    "RIGHT",
    "VQABQ",
    "BQDNoise",
    "BasicQuestionNoise",
    "BestBasicQuestions",
    "Blur",
    "DisturbsImages",
    "Flips",
    "GaussianNoise",
    "ImageNoise",
    "JPEGCompression",
    "JointNoise",
    "MotionBlur",
    "Noise",
    "NoiseAugmentation",
    "NoiseCurve",
    "NoiseRecords",
    "Occlusion",
    "Rephrasing",
    "RobustnessCallback",
    "SaltAndPepper",
    "ThresholdSearch",
    "WordShuffling",
    "common_questions",
    "differs_when_independent",
    "flips_at",
    "helpful_counts",
    "paired_differences",
    "selection_figures",
]
