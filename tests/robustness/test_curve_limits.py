"""Limit cases of the noise curve: an accuracy of 0 at a level, and two noisy levels."""

import numpy as np
import pytest

from ivqa.robustness import NoiseCurve


def _metrics(*levels: list[float]) -> dict[str, float]:
    return NoiseCurve(np.array(levels), ["other", "other"]).metrics(resamples=20)


def test_the_area_needs_a_positive_clean_accuracy() -> None:
    assert _metrics([1.0, 0.0], [0.0, 0.0], [0.5, 0.0])["area"] == pytest.approx(0.25)
    assert _metrics([1.0, 0.0], [0.0, 0.0])["area"] == 0
    assert "area" not in _metrics([0.0, 0.0], [1.0, 0.0])


def test_two_noisy_levels_have_a_trend() -> None:
    assert _metrics([1.0, 1.0], [1.0, 0.5], [0.5, 0.5])["trend"] == pytest.approx(-1)
    assert _metrics([1.0, 1.0], [0.5, 0.5], [1.0, 0.5])["trend"] == pytest.approx(1)
    assert "trend" not in _metrics([1.0, 1.0], [0.5, 0.5], [1.0, 0.0])  # a tie
