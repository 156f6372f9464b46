"""Validation metrics of a generator: the bound, perplexity and the use of its latent variable."""

import torch
from torch import Tensor
from torchmetrics import Metric

from ivqa.generators.networks.network import GeneratorOutput

# A latent dimension is active if its posterior mean varies over the data (Burda et al. 2016).
_ACTIVE_VARIANCE = 0.01


class ElboTerms(Metric):
    """Means of the objective's terms over all questions, batches and processes.

    `compute` returns scalars by name:

    - elbo: nats per question.
    - loss: -elbo, for schedules and checkpoints that minimise.
    - nll_per_word: -log p(q | z, I, a) per word, <eos> included, in nats.
    - perplexity: exp(-elbo per word); for a variational generator an upper bound of its perplexity.
    - kl (only with a latent variable): nats per question.
    - active_units (only with a latent variable): number of dimensions whose posterior mean has a
      variance above 0.01.

    Args:
        latent_size: d_z; 0 without a latent variable.
    """

    full_state_update = False
    totals: Tensor
    means: Tensor
    squares: Tensor

    def __init__(self, latent_size: int = 0) -> None:
        super().__init__()
        self.latent_size = latent_size
        # totals: questions, words, log-likelihood, elbo
        self.add_state("totals", torch.zeros(4), dist_reduce_fx="sum")
        self.add_state("means", torch.zeros(latent_size), dist_reduce_fx="sum")
        self.add_state("squares", torch.zeros(latent_size), dist_reduce_fx="sum")

    def update(self, output: GeneratorOutput) -> None:
        """Adds the terms of a batch of questions."""
        likelihood = output.log_likelihood
        questions = likelihood.new_tensor(len(likelihood))
        tokens = output.num_tokens.sum().to(likelihood.dtype)
        new = torch.stack([questions, tokens, likelihood.sum(), output.elbo.sum()])
        # Not in place: Lightning runs validate() in inference mode and fit() outside it.
        self.totals = self.totals + new
        if output.mean is not None:
            self.means = self.means + output.mean.sum(dim=0)
            self.squares = self.squares + output.mean.square().sum(dim=0)

    def compute(self) -> dict[str, Tensor]:
        """Returns the terms by name."""
        questions, tokens, likelihood, elbo = self.totals.unbind()
        terms = {
            "loss": -elbo / questions,
            "elbo": elbo / questions,
            "nll_per_word": -likelihood / tokens,
            "perplexity": (-elbo / tokens).exp(),
        }
        if self.latent_size:
            # E[x^2] - E[x]^2 of each latent dimension.
            variance = self.squares / questions - (self.means / questions).square()
            # elbo = log-likelihood - KL, so the KL needs no sum of its own.
            terms["kl"] = (likelihood - elbo) / questions
            terms["active_units"] = (variance > _ACTIVE_VARIANCE).sum().float()
        return terms
