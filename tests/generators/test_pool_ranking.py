"""Ranks of pools, and the error of an estimated likelihood, by hand and by brute force."""

import math

import numpy as np
import pytest
import torch

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators import VariationalGenerator
from ivqa.generators.likelihood import marginal_log_likelihood
from ivqa.generators.objective import importance_weighted_bound, importance_weighted_error
from ivqa.generators.pool_ranking import ranking_metrics
from ivqa.pools import KINDS
from ivqa.text.vocabulary import Tokens


def test_ranks_by_hand() -> None:
    gt, ct, pp, ps, rn = range(len(KINDS))
    pools = [
        # scores, kinds: rank of the best correct question, kind in first place
        ([-1.0, -2.0, -3.0, -4.0], [gt, ct, pp, ps]),  # 1, gt
        ([-5.0, -2.0, -3.0, -4.0], [gt, ct, pp, ps]),  # 4, ct
        ([-3.0, -2.0, -1.0, -9.0], [gt, gt, rn, ps]),  # 2 (the second correct one), rn
        ([-1.0, -1.0, -5.0], [gt, ps, pp]),  # a tie counts for the distractor: 2, ps
        ([math.nan, -1.0, -2.0, -3.0], [gt, pp, ct, ct]),  # NaN is last: 4, pp
    ]
    scores = np.concatenate([own for own, _ in pools])
    kinds = np.concatenate([own for _, own in pools])
    pair = np.repeat(np.arange(len(pools)), [len(own) for own, _ in pools])
    metrics = ranking_metrics(scores, pair, kinds)
    assert metrics["acc_at_1"] == pytest.approx(1 / 5)
    assert metrics["acc_at_3"] == pytest.approx(3 / 5)
    assert metrics["mean_reciprocal_rank"] == pytest.approx((1 + 1 / 4 + 1 / 2 + 1 / 2 + 1 / 4) / 5)
    top = [metrics[f"top/{kind}"] for kind in KINDS]
    assert top == pytest.approx([1 / 5, 1 / 5, 1 / 5, 1 / 5, 1 / 5])


def test_ranks_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 25, 300)
    pair = np.repeat(np.arange(300), sizes)
    scores = rng.integers(0, 12, len(pair)).astype(float)  # with many ties
    kinds = rng.integers(0, 5, len(pair))
    kinds[np.cumsum(sizes) - 1] = 0  # a correct question in every pool
    ranks, first = [], []
    for number in range(300):
        own, kind = scores[pair == number], kinds[pair == number]
        best = own[kind == 0].max()
        ranks.append(1 + (own[kind != 0] >= best).sum())
        top = [k for s, k in zip(own, kind, strict=True) if s == own.max()]
        first.append(0 if set(top) == {0} else next(k for k in top if k))
    metrics = ranking_metrics(scores, pair, kinds)
    assert metrics["acc_at_1"] == pytest.approx(np.mean(np.array(ranks) <= 1))
    assert metrics["acc_at_3"] == pytest.approx(np.mean(np.array(ranks) <= 3))
    assert metrics["mean_reciprocal_rank"] == pytest.approx(np.mean(1 / np.array(ranks)))
    assert metrics["top/gt"] == pytest.approx(np.mean(np.array(first) == 0))


def test_the_standard_error_is_that_of_repeated_estimates() -> None:
    """p(q) = E_z[exp(-z^2)] with z ~ N(0, 1), and a proposal N(0.3, 0.8^2)."""
    torch.manual_seed(0)
    repeats, num, own = 4000, 64, 32
    noise = torch.randn(repeats, num)
    z = torch.cat([0.3 + 0.8 * noise[:, :own], noise[:, own:]], dim=1)
    log_q = -0.5 * ((z - 0.3) / 0.8) ** 2 - math.log(0.8)
    ratio = log_q + 0.5 * z**2
    value = importance_weighted_bound(-(z**2), ratio, own)
    error = importance_weighted_error(-(z**2), ratio, own)
    assert value.exp().mean() == pytest.approx(1 / math.sqrt(3), rel=5e-3)  # the integral
    # The spread of the 4000 estimates has a relative error of 1 / sqrt(8000), about 1 percent.
    assert error.mean() == pytest.approx(float(value.std()), rel=0.06)
    all_prior = importance_weighted_error(-(z**2), ratio, 1)
    assert not torch.allclose(all_prior, error)


def test_the_standard_error_by_hand() -> None:
    # Equal densities (log ratio 0), so the weights are the likelihoods: 1, 3 | 2, 6.
    likelihood = torch.tensor([[1.0, 3.0, 2.0, 6.0]]).log()
    found = importance_weighted_error(likelihood, torch.zeros(1, 4), 2)
    # Variances 2 and 8; of the mean: (2 * 2 + 2 * 8) / 16; the mean is 3.
    assert found.item() == pytest.approx(math.sqrt(20 / 16) / 3)
    assert importance_weighted_error(likelihood[:, :1], torch.zeros(1, 1), 1).item() == 0
    # A long question: the weights underflow unless they are scaled.
    low = importance_weighted_error(likelihood - 500, torch.zeros(1, 4), 2)
    torch.testing.assert_close(low, found)


@pytest.mark.parametrize("samples", [2, 3, 4])
def test_too_few_z_give_no_standard_error(samples: int) -> None:
    torch.manual_seed(0)
    network = VariationalGenerator(
        num_words=9, num_answer_words=4, feature_sizes={"concepts": 5}, latent_size=3,
        answer_size=4, embedding_size=4, hidden_size=4,
    )  # fmt: skip
    images = ImageBatch(torch.arange(2), torch.arange(2), concepts=torch.rand(2, 5))
    conditions = network.conditions(images, Tokens(torch.tensor([[1], [2]]), torch.ones(2).long()))
    question = Tokens(torch.tensor([[4, 5], [6, 7]]), torch.tensor([2, 2]))
    noise = torch.randn(samples, 3)
    found = marginal_log_likelihood(network.eval(), question, conditions, torch.arange(2), noise)
    assert (found.standard_error is None) == (samples < 4)
