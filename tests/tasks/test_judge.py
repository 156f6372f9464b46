"""The interval of the share of questions that a VQA model answers as they should be answered."""

import numpy as np
from omegaconf import OmegaConf

from ivqa.tasks.human_study.items import BestQuestion
from ivqa.tasks.judge import _mean


def test_the_interval_is_over_images() -> None:
    """Of two images with five questions each, a quarter of the resamples has one of them twice."""
    own = [BestQuestion(at, at // 5, "no", "Is it?", "Is it?", None) for at in range(10)]
    fits = np.array([False] * 5 + [True] * 5)
    cfg = OmegaConf.create({"resamples": 400, "seed": 0})
    assert _mean(fits, own, cfg) == (0.5, 0.0, 1.0)
