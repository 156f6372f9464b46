"""McNemar's test and the bootstrap against independent computations."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binomtest, ks_2samp

from ivqa.metrics import interval, mcnemar, resampled_means


@pytest.mark.parametrize(("only_first", "only_second"), [(3, 11), (11, 3), (0, 6), (40, 61)])
def test_mcnemar_is_the_exact_test_minus_half_of_the_observed_probability(
    only_first: int, only_second: int
) -> None:
    first = np.array([True] * only_first + [False] * only_second + [True] * 50 + [False] * 20)
    second = np.array([False] * only_first + [True] * only_second + [True] * 50 + [False] * 20)
    found = mcnemar(first, second)
    assert (found.only_first, found.only_second) == (only_first, only_second)
    differing = only_first + only_second
    observed = np.prod([(differing - i) / (i + 1) for i in range(only_first)]) / 2**differing
    exact = binomtest(only_first, differing).pvalue
    assert found.p_value == pytest.approx(exact - observed, abs=1e-9)


@pytest.mark.parametrize("pairs", [0, 1, 7])
def test_equally_accurate_models_do_not_differ(pairs: int) -> None:
    first = np.array([True] * pairs + [False] * pairs + [True])
    second = np.array([False] * pairs + [True] * pairs + [True])
    assert mcnemar(first, second).p_value == pytest.approx(1)


def test_p_values_are_uniform_for_equally_good_models() -> None:
    rng = np.random.default_rng(0)
    p_values = [mcnemar(rng.random(400) < 0.7, rng.random(400) < 0.7).p_value for _ in range(2000)]
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(p_values) <= level) == pytest.approx(level, abs=0.03)


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="one value per question, got 2 and 3"):
        mcnemar(np.zeros(2, dtype=bool), np.zeros(3, dtype=bool))


def test_the_bootstrap_has_the_standard_error_of_the_mean_and_pairs_its_rows() -> None:
    rng = np.random.default_rng(1)
    values = rng.random(900)
    means = resampled_means(np.stack([values, values + 1]), 4000, seed=0)
    assert means[:, 0].std() == pytest.approx(values.std() / 30, rel=0.05)
    np.testing.assert_allclose(means[:, 1] - means[:, 0], 1)
    low, high = interval(means)[:, 0]
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 30, rel=0.06)


def test_the_bootstrap_in_several_passes_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).random((3, 50))
    whole = resampled_means(values, 20, seed=4)
    monkeypatch.setattr("ivqa.metrics.bootstrap._MAX_INDICES", 7 * 50)
    np.testing.assert_allclose(resampled_means(values, 20, seed=4), whole, rtol=1e-12)


def test_the_bootstrap_of_clusters_is_that_of_concatenated_clusters() -> None:
    """Brute force: whole images are drawn, and the values of their questions joined."""
    rng = np.random.default_rng(3)
    clusters = np.repeat(["a", "b", "c", "d", "e"], [1, 7, 3, 2, 9])
    values = rng.random((2, 22))
    order = rng.permutation(22)  # the questions of an image need not stand together
    found = resampled_means(values[:, order], 20_000, 0, clusters[order])
    joined = []
    for _ in range(20_000):
        drawn = rng.choice(["a", "b", "c", "d", "e"], 5)
        joined.append(np.concatenate([values[:, clusters == name] for name in drawn], axis=1))
    brute = np.array([one.mean(axis=1) for one in joined])
    # Rounded, since the same resample may differ in the last bit.
    for weights in ([1, 0], [0, 1], [1, -1]):
        pair = [np.round(one @ weights, 9) for one in (found, brute)]
        assert ks_2samp(*pair).statistic < 0.02


def test_clusters_of_one_question_are_the_bootstrap_of_questions() -> None:
    values = np.random.default_rng(4).random((3, 40))
    ids = np.random.default_rng(5).permutation(40)
    plain = resampled_means(values, 50, seed=1)
    np.testing.assert_array_equal(resampled_means(values, 50, 1, ids), plain)
    with pytest.raises(ValueError, match="3 clusters for 40 values"):
        resampled_means(values, 50, 1, [1, 2, 3])


def _clustered(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Right answers to ten questions about each of 60 images, which differ in difficulty."""
    difficulty = rng.beta(1.2, 0.8, 60)  # mean 0.6
    return (rng.random((60, 10)) < difficulty[:, None]).ravel(), np.repeat(np.arange(60), 10)


def test_95_percent_of_the_intervals_over_images_hold_the_accuracy() -> None:
    """Where the questions about an image are alike, intervals over questions are too narrow."""
    rng = np.random.default_rng(6)
    hits = {"images": 0, "questions": 0}
    for trial in range(300):
        right, images = _clustered(rng)
        for name, clusters in (("images", images), ("questions", None)):
            low, high = interval(resampled_means(right[None], 300, trial, clusters)[:, 0])
            hits[name] += low <= 0.6 <= high
    assert 0.91 < hits["images"] / 300 < 0.98
    assert hits["questions"] / 300 < 0.75


def test_mcnemar_over_images_is_every_exchange_of_the_models_within_images() -> None:
    rng = np.random.default_rng(7)
    first, second = rng.random(30) < 0.7, rng.random(30) < 0.4
    images = rng.integers(0, 8, 30)
    own = [int(first[images == k].sum()) - int(second[images == k].sum()) for k in range(8)]
    sums = np.array([np.dot(signs, own) for signs in product((-1, 1), repeat=8)])
    extreme, equal = np.abs(sums) > abs(sum(own)), np.abs(sums) == abs(sum(own))
    found = mcnemar(first, second, images)
    assert found.p_value == pytest.approx(extreme.mean() + equal.mean() / 2)
    assert found.only_first - found.only_second == sum(own)
    singles = mcnemar(first, second, np.arange(30))
    assert singles.p_value == pytest.approx(mcnemar(first, second).p_value)


def test_p_values_over_images_are_uniform_where_those_over_questions_are_too_small() -> None:
    rng = np.random.default_rng(8)
    p_values = []
    for _ in range(1000):
        first, images = _clustered(rng)
        second, _ = _clustered(rng)  # each model finds other images difficult
        p_values.append([mcnemar(first, second, own).p_value for own in (images, None)])
    over_images, over_questions = (np.array(p_values) <= 0.05).mean(axis=0)
    assert over_images == pytest.approx(0.05, abs=0.02)
    assert over_questions > 0.2
