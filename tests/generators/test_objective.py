"""The terms of the objective against torch.distributions and closed forms."""

import pytest
import torch

from ivqa.generators import ConstantWeight, LinearAnnealing, Posterior
from ivqa.generators.elbo_terms import ElboTerms
from ivqa.generators.networks.network import GeneratorOutput
from ivqa.generators.objective import (
    free_bits,
    importance_weighted_bound,
    kl_to_standard_normal,
    negative_elbo,
)


def test_kl_equals_that_of_torch_distributions() -> None:
    mean, scale = torch.randn(20, 6), torch.rand(20, 6) + 0.05
    expected = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, scale), torch.distributions.Normal(0.0, 1.0)
    )
    torch.testing.assert_close(kl_to_standard_normal(mean, scale), expected)
    torch.testing.assert_close(Posterior(mean, scale).kl(), expected)


def test_the_density_ratio_is_the_ratio_of_the_densities() -> None:
    posterior = Posterior(torch.randn(9, 4), torch.rand(9, 4) + 0.1)
    z = torch.randn(9, 4)
    prior = torch.distributions.Normal(0.0, 1.0).log_prob(z)
    own = torch.distributions.Normal(posterior.mean, posterior.scale).log_prob(z)
    torch.testing.assert_close(posterior.log_density_ratio(z), (own - prior).sum(dim=1))


def test_no_free_bits_is_the_mean_kl() -> None:
    kl = torch.rand(7, 5)
    torch.testing.assert_close(free_bits(kl, 0.0), kl.sum(1).mean())
    torch.testing.assert_close(free_bits(kl, 0.0, per_dimension=True), kl.sum(1).mean())


@pytest.mark.parametrize("per_dimension", [False, True])
def test_free_bits_stop_the_gradient_below_and_pass_it_above(per_dimension: bool) -> None:
    for value, moves in ((0.1, False), (3.0, True)):
        kl = torch.full((4, 1), value, requires_grad=True)
        free_bits(kl, 1.0, per_dimension=per_dimension).backward()
        assert (kl.grad.abs().sum() > 0) == moves


def test_free_bits_per_dimension_cost_more_than_in_total() -> None:
    kl = torch.tensor([[5.0, 0.0, 0.0]])
    assert free_bits(kl, 2.0) == 5.0
    assert free_bits(kl, 2.0, per_dimension=True) == 9.0


def test_negative_elbo_is_the_mean_bound() -> None:
    likelihood, kl = torch.randn(6), torch.rand(6, 3)
    output = GeneratorOutput(likelihood, torch.ones(6), kl, torch.zeros(6, 3))
    torch.testing.assert_close(negative_elbo(likelihood, kl), -output.elbo.mean())
    torch.testing.assert_close(negative_elbo(likelihood, None), -likelihood.mean())
    torch.testing.assert_close(negative_elbo(likelihood, kl, kl_weight=0.0), -likelihood.mean())


# p(x | z) = N(x; z, 1) and p(z) = N(0, 1): p(x) = N(x; 0, 2), p(z | x) = N(z; x / 2, 1 / 2).
X = torch.tensor(1.5)
EVIDENCE = torch.distributions.Normal(0.0, 2**0.5).log_prob(X)


def known_bound(
    mean: float, scale: float, samples: int, num_posterior: int, repeats: int = 4000
) -> torch.Tensor:
    """The bound of the model above for a proposal N(mean, scale^2), (repeats,)."""
    noise = torch.randn(repeats, samples, 1, generator=torch.Generator().manual_seed(0))
    posterior = Posterior(torch.full((1, 1, 1), mean), torch.full((1, 1, 1), scale))
    z = torch.cat([posterior.sample(noise[:, :num_posterior]), noise[:, num_posterior:]], dim=1)
    likelihood = torch.distributions.Normal(z, 1.0).log_prob(X).squeeze(2)
    return importance_weighted_bound(likelihood, posterior.log_density_ratio(z), num_posterior)


@pytest.mark.parametrize("posterior_share", [0.5, 1.0])
def test_the_bound_rises_to_the_evidence(posterior_share: float) -> None:
    bounds = [
        known_bound(0.2, 0.9, samples, round(samples * posterior_share)).mean()
        for samples in (2, 8, 500)
    ]
    assert bounds[0] < bounds[1] < bounds[2]
    torch.testing.assert_close(bounds[2], EVIDENCE, rtol=0, atol=0.01)


def test_a_perfect_proposal_gives_the_evidence_with_one_sample() -> None:
    bound = known_bound(0.75, 0.5**0.5, samples=1, num_posterior=1)
    torch.testing.assert_close(bound, EVIDENCE.expand_as(bound))


def test_draws_from_the_prior_correct_a_proposal_that_is_too_narrow() -> None:
    bare = known_bound(1.5, 0.05, samples=16, num_posterior=16)
    defended = known_bound(1.5, 0.05, samples=16, num_posterior=8)
    assert (bare.mean() - EVIDENCE).abs() > 0.5
    assert (defended.mean() - EVIDENCE).abs() < 0.1
    assert defended.std() < 0.6 * bare.std()


def test_schedules_stay_between_zero_and_one() -> None:
    for schedule in (ConstantWeight(), LinearAnnealing(7)):
        weights = [schedule(step) for step in range(40)]
        assert 0 <= min(weights) <= max(weights) == 1.0


def test_a_schedule_of_zero_steps_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least 1 step, not 0"):
        LinearAnnealing(0)


def test_validation_terms_are_means_over_questions_not_batches() -> None:
    terms = ElboTerms(latent_size=3)
    mean = torch.randn(50, 3) * torch.tensor([1.0, 0.5, 0.01])
    likelihood, kl = -torch.rand(50) * 9, torch.rand(50, 3)
    num_tokens = torch.randint(1, 9, (50,))
    for rows in torch.arange(50).split([1, 30, 19]):
        terms.update(GeneratorOutput(likelihood[rows], num_tokens[rows], kl[rows], mean[rows]))
    values = terms.compute()
    elbo = likelihood - kl.sum(1)
    torch.testing.assert_close(values["elbo"], elbo.mean())
    torch.testing.assert_close(values["loss"], -elbo.mean())
    torch.testing.assert_close(values["kl"], kl.sum(1).mean())
    torch.testing.assert_close(values["nll_per_word"], -likelihood.sum() / num_tokens.sum())
    torch.testing.assert_close(values["perplexity"], (-elbo.sum() / num_tokens.sum()).exp())
    assert values["active_units"] == 2  # the third moves with a variance of 0.0001
    assert (mean.var(0) > 0.01).sum() == 2


def test_a_generator_without_z_has_no_kl_and_no_active_units() -> None:
    terms = ElboTerms()
    terms.update(GeneratorOutput(torch.tensor([-2.0, -4.0]), torch.tensor([2, 4])))
    values = {name: value.item() for name, value in terms.compute().items()}
    assert values.keys() == {"loss", "elbo", "nll_per_word", "perplexity"}
    assert values["perplexity"] == pytest.approx(2.718281828, rel=1e-6)
