"""Krippendorff's alpha against a hand computation, the definition and the published package."""

import numpy as np
import pytest

from ivqa.metrics import krippendorff_alpha, krippendorff_interval

NAN = float("nan")
# The example of Krippendorff (2011), "Computing Krippendorff's alpha-reliability", part C.
FOUR_PEOPLE = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
]


def _by_definition(ratings: np.ndarray) -> float:
    """alpha from loops over pairs of ratings."""
    units = [column[~np.isnan(column)] for column in ratings.T]
    units = [column for column in units if len(column) > 1]
    values = np.concatenate(units)
    within = sum(
        sum((a - b) ** 2 for a in column for b in column) / (len(column) - 1) for column in units
    )
    between = sum((a - b) ** 2 for a in values for b in values) / (len(values) - 1)
    return float(1 - within / between)


def _random(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 5, 40)
    ratings = np.clip(truth + rng.integers(-1, 2, (4, 40)), 0, 4).astype(float)
    ratings[rng.random(ratings.shape) < 0.4] = NAN
    return ratings


def test_the_published_example() -> None:
    assert krippendorff_alpha(FOUR_PEOPLE) == pytest.approx(0.849, abs=5e-4)


def test_two_units_by_hand() -> None:
    """D_o = ((0 - 1)^2 + (4 - 4)^2) * 2 / 4 = 1/2; D_e = 2 * (1 + 16 + 16 + 9 + 9) / 12 = 17/2."""
    assert krippendorff_alpha([[0, 4], [1, 4]]) == pytest.approx(1 - (1 / 2) / (17 / 2))


@pytest.mark.parametrize("seed", range(5))
def test_the_definition_and_the_package(seed: int) -> None:
    ratings = _random(seed)
    found = krippendorff_alpha(ratings)
    assert found == pytest.approx(_by_definition(ratings), abs=1e-12)
    package = pytest.importorskip("krippendorff")
    expected = package.alpha(reliability_data=ratings, level_of_measurement="interval")
    assert found == pytest.approx(expected, abs=1e-12)


def test_limits() -> None:
    assert krippendorff_alpha([[0, 2, 4], [0, 2, 4]]) == 1
    assert krippendorff_alpha([[0, 4], [4, 0]]) == pytest.approx(-0.5)  # less than chance
    for undefined in ([[3, 3], [3, 3]], [[1, NAN], [NAN, 2]], [[1, 2, 3]]):
        assert np.isnan(krippendorff_alpha(undefined))
        assert np.isnan(krippendorff_interval(undefined)).all()
    # A unit with one rating changes nothing; nor do the origin and the step of the scale.
    ratings = _random(7)
    more = np.column_stack([ratings, [4, NAN, NAN, NAN]])
    assert krippendorff_alpha(more) == pytest.approx(krippendorff_alpha(ratings))
    assert krippendorff_alpha(10 * ratings - 30) == pytest.approx(krippendorff_alpha(ratings))


def test_the_interval_is_that_of_resampled_units() -> None:
    ratings = _random(3)
    low, high = krippendorff_interval(ratings, resamples=4000, seed=1)
    rng = np.random.default_rng(99)
    draws = [_by_definition(ratings[:, rng.integers(0, 40, 40)]) for _ in range(600)]
    assert [low, high] == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=0.03)
    assert low < krippendorff_alpha(ratings) < high


def test_copies_of_units_do_not_narrow_the_interval_of_clusters() -> None:
    ratings = _random(5)
    copied = np.repeat(ratings, 4, axis=1)
    clusters = np.repeat(np.arange(40), 4)
    single = np.ptp(krippendorff_interval(ratings))
    assert np.ptp(krippendorff_interval(copied, clusters)) == pytest.approx(single, rel=0.1)
    assert np.ptp(krippendorff_interval(copied)) < 0.7 * single
