"""Robustness: how a VQA model's accuracy falls as questions are disturbed, and its R_score."""

from ivqa.robustness.augmentation import NoiseAugmentation
from ivqa.robustness.bqd_noise import BQDNoise
from ivqa.robustness.callback import RobustnessCallback
from ivqa.robustness.comparison import paired_differences
from ivqa.robustness.curve import NoiseCurve
from ivqa.robustness.image_noise import (
    Blur,
    GaussianNoise,
    ImageNoise,
    JointNoise,
    JPEGCompression,
    Occlusion,
)
from ivqa.robustness.noise import BasicQuestionNoise, DisturbsImages, Noise, WordShuffling
from ivqa.robustness.records import NoiseRecords
from ivqa.robustness.vqabq import VQABQ, helpful_counts, selection_figures

__all__ = [
    "VQABQ",
    "BQDNoise",
    "BasicQuestionNoise",
    "Blur",
    "DisturbsImages",
    "GaussianNoise",
    "ImageNoise",
    "JPEGCompression",
    "JointNoise",
    "Noise",
    "NoiseAugmentation",
    "NoiseCurve",
    "NoiseRecords",
    "Occlusion",
    "RobustnessCallback",
    "WordShuffling",
    "helpful_counts",
    "paired_differences",
    "selection_figures",
]
