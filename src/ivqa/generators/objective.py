"""The evidence lower bound and what keeps its latent variable alive. Pure functions; nats.

ELBO = E_q(z | I, q)[log p(q | z, I, a)] - KL(q(z | I, q) || N(0, I))   [iVQA 3.2]
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ivqa.errors import UserError
from ivqa.ranges import Count, NonNegative, PositiveShare


def kl_to_standard_normal(mean: Tensor, scale: Tensor) -> Tensor:
    """KL(N(mean, scale^2) || N(0, 1)) = (mean^2 + scale^2 - 1) / 2 - log scale, elementwise.

    >>> kl_to_standard_normal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0]))
    tensor([0.0000, 0.5000])
    """
    return 0.5 * (mean.square() + scale.square() - 1) - scale.log()


def free_bits(
    kl: Tensor, minimum: float, *, per_dimension: bool = False, pull: bool = False
) -> Tensor:
    """The KL term, a scalar, with `minimum` nats of it free (Kingma et al. 2016, eq. 15).

    kl: (B, d_z). per_dimension False: max(minimum, mean over B of the whole KL), so the latent
    variable may concentrate its information. True: the sum over dimensions of
    max(minimum, mean over B of that dimension's KL), so every dimension is paid for.
    pull: a KL below the minimum costs what it lacks, minimum + |KL - minimum| (the rate target of
    Burgess et al. 2018), where free bits alone would let it stay at zero.

    >>> kl = torch.tensor([[0.5, 0.0], [1.5, 0.0]])
    >>> free_bits(kl, 2.0), free_bits(kl, 0.25), free_bits(kl, 0.25, per_dimension=True)
    (tensor(2.), tensor(1.), tensor(1.2500))
    >>> free_bits(kl, 2.0, pull=True)
    tensor(3.)
    """
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
    """Training loss a question: -mean log p(q | z, I, a) + kl_weight * KL with free bits.

    log_likelihood: (B,). kl: (B, d_z), or None where there is no latent variable. Scalar.
    """
    loss = -log_likelihood.mean()
    if kl is None:
        return loss
    return loss + kl_weight * free_bits(kl, free_nats, per_dimension=per_dimension, pull=pull)


def importance_weighted_bound(
    log_likelihood: Tensor, log_ratio: Tensor, num_posterior: int
) -> Tensor:
    """Estimate of log p(q | I, a), (B,), from K values of z; in expectation a lower bound.

    log 1/K sum_k p(q | z_k, I, a) p(z_k) / m(z_k),  m = share q(z | I, q) + (1 - share) p(z)

    The first `num_posterior` z_k are drawn from q(z | I, q), the others from the prior p(z), and
    share = num_posterior / K. num_posterior = K is the bound of Burda et al. 2016, K = 1 the ELBO.
    Some draws from the prior keep every weight p/m below 1 / (1 - share) (defensive importance
    sampling, Hesterberg 1995; Owen and Zhou 2000): without them one rare z can outweigh all others
    where q is narrow, and it is narrowest for questions unlike those it was trained on.

    log_likelihood: log p(q | z_k, I, a), (B, K). log_ratio: log q(z_k | I, q) - log p(z_k), (B, K).
    """
    samples = log_likelihood.shape[1]
    share = torch.tensor([num_posterior / samples, 1 - num_posterior / samples])
    from_posterior, from_prior = share.log().to(log_ratio).unbind()
    log_weight = -torch.logaddexp(log_ratio + from_posterior, from_prior)
    return (log_likelihood + log_weight).logsumexp(dim=1) - math.log(samples)


@dataclass(frozen=True)
class ConstantWeight:
    """The same weight of the KL at every step."""

    weight: NonNegative = 1.0

    def __call__(self, step: int) -> float:
        """The weight at an optimiser step."""
        return self.weight


@dataclass(frozen=True)
class LinearAnnealing:
    """min(1, step / steps): the KL joins slowly, once the decoder uses z (Bowman et al. 2016).

    >>> [LinearAnnealing(steps=4)(step) for step in (0, 1, 4, 9)]
    [0.0, 0.25, 1.0, 1.0]
    """

    steps: Count

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise UserError(f"annealing takes at least 1 step, not {self.steps}")

    def __call__(self, step: int) -> float:
        """The weight at an optimiser step."""
        return min(1.0, step / self.steps)


@dataclass(frozen=True)
class CyclicalAnnealing:
    """Linear annealing over the first `ramp` of every period, 1 in the rest (Fu et al. 2019).

    >>> [CyclicalAnnealing(period=8)(step) for step in (0, 2, 4, 7, 8, 10)]
    [0.0, 0.5, 1.0, 1.0, 0.0, 0.5]
    """

    period: Count
    ramp: PositiveShare = 0.5  # the share that Fu et al. recommend

    def __post_init__(self) -> None:
        if self.period < 1:
            raise UserError(f"the period must be at least 1 step, not {self.period}")
        if not 0 < self.ramp <= 1:
            raise UserError(f"the ramp is a share of the period in (0, 1], not {self.ramp}")

    def __call__(self, step: int) -> float:
        """The weight at an optimiser step."""
        return min(1.0, (step % self.period) / (self.period * self.ramp))
