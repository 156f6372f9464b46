"""What validation says about a generator: bound, perplexity and the use of its latent variable."""

import torch
from torch import Tensor
from torchmetrics import Metric

from ivqa.generators.network import GeneratorOutput

# A latent dimension is active if its posterior mean moves with the data (Burda et al. 2016).
_ACTIVE_VARIANCE = 0.01


class ElboTerms(Metric):
    """Means over all questions seen, of any number of batches and processes.

    latent_size: d_z, 0 where there is no latent variable. `compute` returns scalars:
    elbo and loss (its negative, for schedules and checkpoints that minimise), nats a question;
    nll_per_word: -log p(q | z, I, a) a token, <eos> included; perplexity: exp(-elbo a token), for
    a variational generator an upper bound of its perplexity; and with a latent variable
    kl: nats a question; active_units: dimensions whose posterior mean has a variance over 0.01.
    """

    full_state_update = False
    totals: Tensor
    means: Tensor
    squares: Tensor

    def __init__(self, latent_size: int = 0) -> None:
        super().__init__()
        self.latent_size = latent_size
        # questions, tokens, log-likelihood, elbo
        self.add_state("totals", torch.zeros(4), dist_reduce_fx="sum")
        self.add_state("means", torch.zeros(latent_size), dist_reduce_fx="sum")
        self.add_state("squares", torch.zeros(latent_size), dist_reduce_fx="sum")

    def update(self, output: GeneratorOutput) -> None:
        """Adds the B questions of a batch."""
        likelihood = output.log_likelihood
        questions = likelihood.new_tensor(len(likelihood))
        tokens = output.num_tokens.sum().to(likelihood.dtype)
        new = torch.stack([questions, tokens, likelihood.sum(), output.elbo.sum()])
        # Not in place: Lightning's validate() and fit() alternate between inference mode and not.
        self.totals = self.totals + new
        if output.mean is not None:
            self.means = self.means + output.mean.sum(dim=0)
            self.squares = self.squares + output.mean.square().sum(dim=0)

    def compute(self) -> dict[str, Tensor]:
        """The terms by name."""
        questions, tokens, likelihood, elbo = self.totals.unbind()
        terms = {
            "loss": -elbo / questions,
            "elbo": elbo / questions,
            "nll_per_word": -likelihood / tokens,
            "perplexity": (-elbo / tokens).exp(),
        }
        if self.latent_size:
            variance = self.squares / questions - (self.means / questions).square()
            terms["kl"] = (likelihood - elbo) / questions
            terms["active_units"] = (variance > _ACTIVE_VARIANCE).sum().float()
        return terms
