"""Limit cases of the noise curve: an accuracy of 0 at a level, and two noisy levels."""

import numpy as np
import pytest
from scipy.stats import linregress

from ivqa.robustness.curve import NoiseCurve


def _metrics(*levels: list[float]) -> dict[str, float]:
    return NoiseCurve(np.array(levels), ["other", "other"]).metrics(resamples=20)


def test_the_area_needs_a_positive_clean_accuracy() -> None:
    assert _metrics([1.0, 0.0], [0.0, 0.0], [0.5, 0.0])["area"] == pytest.approx(0.25)
    assert _metrics([1.0, 0.0], [0.0, 0.0])["area"] == 0
    assert "area" not in _metrics([0.0, 0.0], [1.0, 0.0])


def test_two_noisy_levels_have_a_trend() -> None:
    assert _metrics([1.0, 1.0], [1.0, 0.5], [0.5, 0.5])["trend"] == pytest.approx(-1)
    assert _metrics([1.0, 1.0], [0.5, 0.5], [1.0, 0.5])["trend"] == pytest.approx(1)
    assert _metrics([1.0, 1.0], [0.5, 0.5], [1.0, 0.0])["trend"] == 0  # a tie


def _published(*percent: float) -> dict[str, float]:
    """The figures of a curve with these accuracies at levels 0, 1, ..."""
    return NoiseCurve(np.array(percent)[:, None] / 100, ["other"]).metrics(resamples=2)


def test_the_slope_tells_rankings_apart_whose_trend_is_the_same() -> None:
    # HieCoAtt on GBQD, ranked by LASSO and by ROUGE-L, as published [ROB, IJCV].
    lasso = _published(60.48, 54.63, 52.67, 51.08, 51.34, 49.99, 50.27, 48.92)
    rouge = _published(60.48, 11.96, 13.26, 13.25, 12.38, 13.49, 13.32, 13.25)
    for curve, values in (
        (lasso, [54.63, 52.67, 51.08, 51.34, 49.99, 50.27, 48.92]),
        (rouge, [11.96, 13.26, 13.25, 12.38, 13.49, 13.32, 13.25]),
    ):
        assert curve["slope"] == pytest.approx(linregress(range(7), values).slope / 100)
    # All of these fall at every level; the objective prefers the wider separation.
    weak = _published(60, 50, 49.9, 49.8, 49.7, 49.6, 49.5, 49.4)
    strong = _published(60, 58, 56, 54, 52, 50, 48, 46)
    assert weak["trend"] == strong["trend"] == pytest.approx(-1)
    assert (weak["slope"], strong["slope"]) == (pytest.approx(-0.001), pytest.approx(-0.02))
    flat = _published(60, 50, 50, 50)
    assert strong["slope"] < lasso["slope"] < weak["slope"] < flat["slope"] < rouge["slope"]
    assert flat["slope"] == 0
    assert "slope" not in _metrics([1.0, 0.0], [0.5, 0.0])


def test_the_bootstrap_of_a_curve_draws_images() -> None:
    """With all questions about one image, every resample is the whole split."""
    accuracies = np.random.default_rng(0).random((3, 40))
    curve = NoiseCurve(accuracies, ["other"] * 40, images=np.zeros(40, dtype=np.int64))
    metrics = curve.metrics()
    for name in ("partition_0/accuracy", "partition_2/accuracy", "r_score", "slope"):
        ends = [metrics[f"{name}_{end}"] for end in ("low", "high")]
        assert ends == pytest.approx([metrics[name]] * 2)
    halves = NoiseCurve(accuracies, ["other"] * 40, images=np.repeat([8, 9], 20)).metrics()
    means = [accuracies[0, :20].mean(), accuracies[0, 20:].mean()]
    ends = [halves[f"partition_0/accuracy_{end}"] for end in ("low", "high")]
    assert ends == pytest.approx(sorted(means))
    # Two noisy levels: the slope is their difference.
    slopes = [accuracies[2, half].mean() - accuracies[1, half].mean()
              for half in (slice(20), slice(20, 40))]  # fmt: skip
    assert [halves["slope_low"], halves["slope_high"]] == pytest.approx(sorted(slopes))


@pytest.mark.parametrize(("clean", "below"), [(0.4, 1), (0.5, 1), (0.6, 0)])
def test_a_model_that_is_not_better_than_the_blind_baseline_is_marked(
    clean: float, below: int
) -> None:
    accuracies = np.full((2, 4), clean)
    curve = NoiseCurve(accuracies, ["other"] * 4, blind=np.array([1.0, 0.0, 1.0, 0.0]))
    metrics = curve.metrics(resamples=5)
    assert (metrics["r_score"], metrics["blind_accuracy"]) == (1, 0.5)
    assert metrics["below_blind"] == below
    assert "below_blind" not in _metrics([1.0, 1.0], [1.0, 1.0])


def test_changed_answers_and_the_difference_of_accuracies() -> None:
    accuracies = np.array([[1.0, 0.0], [0.3, 0.0], [1.0, 1.0]])
    answers = [["Two", "red"], ["2", "blue"], ["3", "blue"]]
    metrics = NoiseCurve(accuracies, ["other", "other"], answers=answers).metrics(resamples=20)
    # "Two" and "2" are one answer; wrong answers that change count as well.
    assert metrics["partition_1/flips"] == 0.5
    assert metrics["partition_2/flips"] == 1
    assert metrics["acc_diff"] == metrics["partition_1/acc_diff"] == pytest.approx(0.35)
    assert metrics["partition_2/acc_diff"] == pytest.approx(0.5)  # the accuracy rises
    assert not any("flips" in name for name in _metrics([1.0, 0.0], [0.0, 0.0]))
