"""McNemar's test and the bootstrap against independent computations."""

import numpy as np
import pytest
from scipy.stats import binomtest

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
    with pytest.raises(ValueError, match="2 do not pair 3"):
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
