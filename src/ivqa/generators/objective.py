"""The evidence lower bound, free bits and KL schedules. Pure functions; all terms in nats.

ELBO = E_q(z | I, q)[log p(q | z, I, a)] - KL(q(z | I, q) || N(0, I))   [iVQA 3.2]
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ivqa.errors import UserError
from ivqa.ranges import Count, NonNegative


def kl_to_standard_normal(mean: Tensor, scale: Tensor) -> Tensor:
    """KL(N(mean, scale^2) || N(0, 1)) = (mean^2 + scale^2 - 1) / 2 - log scale, elementwise, nats.

    Example:
        >>> kl_to_standard_normal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0]))
        tensor([0.0000, 0.5000])
    """
    return 0.5 * (mean.square() + scale.square() - 1) - scale.log()


def free_bits(
    kl: Tensor, minimum: float, *, per_dimension: bool = False, pull: bool = False
) -> Tensor:
    """KL term of the loss with free bits (Kingma et al. 2016, eq. 15).

    A KL of up to `minimum` nats costs the same as `minimum`, so it has no gradient.

    Args:
        kl: KL of every question and latent dimension, (B, d_z), in nats.
        minimum: The free nats, >= 0.
        per_dimension: False compares the KL summed over dimensions with the minimum, so a few
            dimensions may hold all information. True compares the KL of each dimension with it
            and sums the results.
        pull: A KL below the minimum costs minimum + |KL - minimum| (the rate target of Burgess et
            al. 2018), so it rises to the minimum. Free bits alone let it stay at zero.

    Returns:
        A scalar, in nats, averaged over the B questions.

    Example:
        >>> kl = torch.tensor([[0.5, 0.0], [1.5, 0.0]])
        >>> free_bits(kl, 2.0), free_bits(kl, 0.25), free_bits(kl, 0.25, per_dimension=True)
        (tensor(2.), tensor(1.), tensor(1.2500))
        >>> free_bits(kl, 2.0, pull=True)
        tensor(3.)
    """
    # The minimum applies to the mean over the batch and not to each question, as in the paper.
    mean = kl.mean(dim=0)  # (d_z,)
    rate = mean if per_dimension else mean.sum()
    lifted = minimum + (rate - minimum).abs() if pull else rate.clamp_min(minimum)
    return lifted.sum()


def negative_elbo(
    log_likelihood: Tensor,
    kl: Tensor | None,
    *,
    kl_weight: float = 1.0,
    free_nats: float = 0.0,
    per_dimension: bool = False,
    pull: bool = False,
) -> Tensor:
    """Training loss, a scalar: -mean log p(q | z, I, a) + kl_weight * KL with free bits, in nats.

    Args:
        log_likelihood: log p(q | z, I, a), (B,), in nats.
        kl: KL of every question and latent dimension, (B, d_z); None without a latent variable.
        kl_weight: Weight of the KL, >= 0.
        free_nats: `minimum` of `free_bits`, whose other arguments follow.
        per_dimension: See there.
        pull: See there.
    """
    loss = -log_likelihood.mean()
    if kl is None:
        return loss
    return loss + kl_weight * free_bits(kl, free_nats, per_dimension=per_dimension, pull=pull)


def importance_weighted_bound(
    log_likelihood: Tensor, log_ratio: Tensor, num_posterior: int
) -> Tensor:
    """Estimates log p(q | I, a), (B,) in nats, from K values of z; in expectation a lower bound.

    log 1/K sum_k p(q | z_k, I, a) p(z_k) / m(z_k),  m = share q(z | I, q) + (1 - share) p(z)

    The first `num_posterior` z_k are drawn from q(z | I, q), the others from the prior p(z), and
    share = num_posterior / K. num_posterior = K is the bound of Burda et al. 2016, K = 1 the ELBO.
    Draws from the prior keep every weight p/m below 1 / (1 - share) (defensive importance
    sampling, Hesterberg 1995; Owen and Zhou 2000). Without them one rare z can outweigh all others
    if q is narrow, and q is narrowest for questions that differ from the training questions.

    Args:
        log_likelihood: log p(q | z_k, I, a), (B, K), in nats.
        log_ratio: log q(z_k | I, q) - log p(z_k), (B, K).
        num_posterior: Number of draws from the posterior, 1 to K.
    """
    log_weight = _log_weights(log_likelihood, log_ratio, num_posterior)
    return log_weight.logsumexp(dim=1) - math.log(log_likelihood.shape[1])


def importance_weighted_error(
    log_likelihood: Tensor, log_ratio: Tensor, num_posterior: int
) -> Tensor:
    """Estimates the standard error of `importance_weighted_bound`, (B,) in nats; 0 for K = 1.

    The bound is the logarithm of the mean of K weights, in two strata: those drawn from the
    posterior and those from the prior. The variance of the mean is the sum of K_s var_s / K^2 over
    the strata, and by the delta method the error of the logarithm is the error of the mean divided
    by the mean. A stratum of one draw says nothing about its variance and counts as 0.
    """
    log_weight = _log_weights(log_likelihood, log_ratio, num_posterior)
    # Relative to the largest weight, so that none underflows for a long question.
    weight = (log_weight - log_weight.amax(dim=1, keepdim=True)).exp().double()
    variance = weight.new_zeros(len(weight))
    for stratum in (weight[:, :num_posterior], weight[:, num_posterior:]):
        if stratum.shape[1] > 1:
            variance = variance + stratum.shape[1] * stratum.var(dim=1)
    return (variance.sqrt() / weight.sum(dim=1)).to(log_likelihood.dtype)


def _log_weights(log_likelihood: Tensor, log_ratio: Tensor, num_posterior: int) -> Tensor:
    """Log of p(q | z_k, I, a) p(z_k) / m(z_k), (B, K)."""
    samples = log_likelihood.shape[1]
    share = torch.tensor([num_posterior / samples, 1 - num_posterior / samples])
    # log(p / m) = -log(share q / p + 1 - share), in logarithms for stability.
    from_posterior, from_prior = share.log().to(log_ratio).unbind()
    return log_likelihood - torch.logaddexp(log_ratio + from_posterior, from_prior)


@dataclass(frozen=True)
class ConstantWeight:
    """A constant weight of the KL, >= 0."""

    weight: NonNegative = 1.0

    def __call__(self, step: int) -> float:
        """Returns the weight at an optimiser step, counted from 0."""
        return self.weight


@dataclass(frozen=True)
class LinearAnnealing:
    """KL weight min(1, step / steps): the decoder learns to use z first (Bowman et al. 2016).

    Raises:
        UserError: `steps` is below 1.

    Example:
        >>> [LinearAnnealing(steps=4)(step) for step in (0, 1, 4, 9)]
        [0.0, 0.25, 1.0, 1.0]
    """

    version: ClassVar[int] = 1

    steps: Count

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UserError(f"annealing takes at least 1 step, not {self.steps}")

    def __call__(self, step: int) -> float:
        """Returns the weight at an optimiser step, counted from 0."""
        return min(1.0, step / self.steps)
