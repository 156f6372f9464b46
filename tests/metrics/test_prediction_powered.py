"""Prediction-powered inference: its equations, and whether its intervals hold on scenes."""

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from ivqa.metrics import prediction_powered
from ivqa.scenes import SceneOracle
from ivqa.scenes.oracle import simple_questions
from ivqa.scenes.world import sample_scene

LABELS = [1, 0, 1, 1, 0, 0, 1, 0]  # 3 ones and 3 zeros judged so
JUDGED = [1, 0, 0, 1, 1, 0, 1, 0]
FURTHER = [1] * 9 + [0] * 7


def test_the_equations_by_hand() -> None:
    # Of 8 labels and of 8 judgements half are 1, and 6 are equal: cov = 3/8 - 1/4 = 1/8.
    # All 24 judgements: 13 ones. lambda = (1/8) / ((1 + 8/16) 13/24 11/24)
    power = 0.125 / (1.5 * 13 / 24 * 11 / 24)
    found = prediction_powered(LABELS, JUDGED, FURTHER)
    assert found.power == pytest.approx(power)
    estimate = 0.5 + power * (9 / 16 - 0.5)
    assert found.estimate == pytest.approx(estimate)
    # Each residual y - power f of 8 and 2.25 labels: 0, 1 - power, 1, -power, and how often.
    cells = {0.0: 4, 1 - power: 4, 1.0: 1.125, -power: 1.125}
    centre = sum(value * count for value, count in cells.items()) / 10.25
    squares = sum((value - centre) ** 2 * count for value, count in cells.items())
    variance = squares / 8.25 / 10.25 + power**2 * 9 / 16 * 7 / 16 / 16
    half = 2.446912 * variance**0.5  # the 97.5 percent quantile of t with 6 degrees of freedom
    assert found.low == pytest.approx(centre + power * 9 / 16 - half, abs=1e-6)
    assert found.high == pytest.approx(centre + power * 9 / 16 + half, abs=1e-6)


def test_weights_by_hand() -> None:
    """Weights 1 and 3: each mean of labels is weighted, and so is the covariance."""
    labels, judged, weights = [1, 0, 1, 0], [1, 0, 0, 0], [1, 3, 3, 1]
    w = np.array(weights) / 2
    y, f = np.array(labels) - 0.5, np.array(judged) - 1 / 8
    power = float((w * y * w * f).mean() / ((w * f * w * f).mean() + 4 / 10 * 0.16))
    found = prediction_powered(labels, judged, [1] * 2 + [0] * 8, weights)
    assert found.power == pytest.approx(power)
    assert found.estimate == pytest.approx(0.5 + power * (0.2 - 1 / 8))
    given = np.array([1 - power, 0, 1, 0])
    added = {0.0: 1, 1 - power: 1, 1.0: 0.125, -power: 0.125}
    centre = (w @ given + sum(value * count for value, count in added.items())) / 6.25
    squares = float((w * w * (given - centre) ** 2).sum())
    squares += sum((value - centre) ** 2 * count for value, count in added.items())
    half = 4.302653 * (squares / 4.25 / 6.25 + power**2 * 0.16 / 10) ** 0.5
    assert found.low == pytest.approx(max(0, centre + power * 0.2 - half), abs=1e-6)
    equal = prediction_powered(labels, judged, FURTHER, [7] * 4)
    assert equal.estimate != prediction_powered(labels, judged, FURTHER, weights).estimate


def test_the_estimates_of_the_package_ppi_python() -> None:
    """ppi_mean_pointestimate of ppi-python 0.2.3, which divides the covariance by n - 1."""
    rows = np.arange(1200)
    truth = (rows * rows % 11 < 4).astype(float)
    judged = np.where(rows * rows % 17 < 3, 1 - truth, truth)
    found = prediction_powered(truth[:100], judged[:100], judged[100:])
    assert found.estimate == pytest.approx(0.4547637549370809, abs=1e-5)
    assert truth[:100].mean() == 0.46


def test_a_judge_that_says_nothing_leaves_the_labels_alone() -> None:
    alone = prediction_powered(LABELS, JUDGED, [])
    assert (alone.estimate, alone.power) == (0.5, 0.0)
    contrary = prediction_powered(LABELS, 1 - np.array(LABELS), FURTHER)
    assert (contrary.low, contrary.high) == (alone.low, alone.high)
    assert prediction_powered(LABELS, [1] * 8, [1] * 9).power == 0


def test_bounds_stay_in_the_unit_interval_and_never_meet() -> None:
    for labels in ([0] * 20, [1] * 20):
        found = prediction_powered(labels, labels, labels * 10)
        assert 0 <= found.low < found.high <= 1
        assert found.high - found.low < 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 0], [1, 0], [1]), "2 labels; prediction-powered inference needs 3"),
        (([1, 0, 1], [1, 0], [1]), "3 labels, 2 judgements"),
        (([1, 0, 1], [1, 0, 1], [1], [1, 2]), "and 2 weights"),
        (([1, 0, 1], [1, 0, 50], [1]), "judged holds a value outside"),
        (([1, 0, 1], [1, 0, 1], [1], [1, 1, 0]), "weights must be positive"),
        (([1, 0, 1], [1, 0, 1], [np.nan]), "further holds a value outside"),
    ],
)
def test_wrong_arguments(arguments: tuple[list[float], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prediction_powered(*arguments)


@pytest.fixture(scope="module")
def wrong() -> NDArray[np.float64]:
    """(6000,): whether answers about scenes are wrong, by the oracle.

    Half are answers to the same question about another scene.
    """
    rng = random.Random(0)
    oracle = SceneOracle({number: sample_scene(rng) for number in range(60)})
    questions = list(simple_questions().values())
    truths: list[bool] = []
    while len(truths) < 6000:
        question, here = rng.choice(questions), rng.randrange(60)
        given = oracle.judge(rng.choice([here, rng.randrange(60)]), question)
        if given.premise:
            judged = oracle.judge(here, question)
            truths.append(not judged.premise or given.answer not in judged.acceptable)
    return np.array(truths, np.float64)


@pytest.mark.parametrize("agreement", [0.7, 0.85, 0.95])
def test_intervals_hold_and_are_as_narrow_as_theory_says(
    wrong: NDArray[np.float64], agreement: float
) -> None:
    """1,000 draws of 100 labels; a judge that errs at random in one of 1 - agreement cases."""
    rng = np.random.default_rng(1)
    judged = np.where(rng.random(len(wrong)) < agreement, wrong, 1 - wrong)
    holds, widths, alone = [], [], []
    for _ in range(1000):
        order = rng.permutation(len(wrong))
        rows, others = order[:100], order[100:]
        found = prediction_powered(wrong[rows], judged[rows], judged[others])
        labels = prediction_powered(wrong[rows], judged[rows], [])
        holds.append(found.low <= wrong.mean() <= found.high)
        widths.append(found.high - found.low)
        alone.append(labels.high - labels.low)
    assert 0.93 <= np.mean(holds) <= 0.97
    # At the best lambda: var = var(y) / n (1 - rho^2 / (1 + n / N)).
    rho = np.corrcoef(wrong, judged)[0, 1]
    factor = (1 - rho**2 / (1 + 100 / 5900)) ** 0.5
    assert np.mean(widths) / np.mean(alone) == pytest.approx(factor, rel=0.04)
