"""What the networks p(q | z, I, a) have in common: conditions, posterior, likelihood, decoding."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.generators.decoder import QuestionDecoder, State, Step
from ivqa.generators.objective import kl_to_standard_normal
from ivqa.text.vocabulary import Tokens


@dataclass(frozen=True)
class Conditions:
    """What images and answers of P pairs contribute, projected once a pair.

    decoder: (P, d_h), the part of the decoder's h_0 that does not depend on z.
    encoder: (P, d_e), h_0 of the question encoder; None without one.
    """

    decoder: Tensor
    encoder: Tensor | None = None

    def select(self, rows: Tensor) -> "Conditions":
        """Conditions of the pairs `rows` (N,), which may repeat."""
        encoder = None if self.encoder is None else self.encoder[rows]
        return Conditions(self.decoder[rows], encoder)

    def __len__(self) -> int:
        return self.decoder.shape[0]


@dataclass(frozen=True)
class Posterior:
    """q(z | I, q) = N(mean, scale^2 I); both (B, d_z), or of a shape that broadcasts with noise."""

    mean: Tensor
    scale: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        """A draw z = mean + scale * noise, differentiable in the posterior; noise ~ N(0, I)."""
        return self.mean + self.scale * noise

    def kl(self) -> Tensor:
        """KL(q(z | I, q) || N(0, I)) of every dimension, (B, d_z), in nats."""
        return kl_to_standard_normal(self.mean, self.scale)

    def log_density_ratio(self, z: Tensor) -> Tensor:
        """Log-ratio log q(z | I, q) - log N(z; 0, I), (B,) for z (B, d_z)."""
        noise = (z - self.mean) / self.scale
        return (0.5 * (z.square() - noise.square()) - self.scale.log()).sum(dim=-1)


@dataclass(frozen=True)
class GeneratorOutput:
    """The terms of the objective for B questions, in nats.

    log_likelihood: log p(q | z, I, a), (B,). num_tokens: words and <eos>, (B,).
    kl: of every latent dimension, (B, d_z). mean: of the posterior, (B, d_z). Both None where the
    generator has no latent variable.
    """

    log_likelihood: Tensor
    num_tokens: Tensor
    kl: Tensor | None = None
    mean: Tensor | None = None

    @property
    def elbo(self) -> Tensor:
        """The bound log p(q | z, I, a) - KL, (B,); without a latent variable log p(q | I, a)."""
        return self.log_likelihood if self.kl is None else self.log_likelihood - self.kl.sum(dim=1)


class QuestionGenerator(nn.Module, ABC):
    """A network p(q | z, I, a); a generator adds `conditions` and, with a latent variable,
    `initial_hidden` and `posterior`.
    """

    latent_size: int = 0
    """d_z; 0 where there is no latent variable."""

    def __init__(self, decoder: QuestionDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    @abstractmethod
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """Images and answers of P pairs as conditions."""

    def initial_hidden(self, conditions: Conditions, z: Tensor | None) -> Tensor:
        """h_0 of the decoder, (N, d_h), for conditions of N rows and z (N, d_z)."""
        return conditions.decoder

    def posterior(self, question: Tokens, conditions: Conditions) -> Posterior | None:
        """q(z | I, q) of N questions; None without a latent variable."""
        return None

    def token_log_probs(
        self,
        question: Tokens,
        z: Tensor | None,
        conditions: Conditions,
        temperature: float | None = None,
    ) -> Tensor:
        """Scores log p(w_t | w_<t; z, I, a) of words and <eos>, (N, T + 1), 0 behind <eos>.

        Differentiable in the weights and in z. temperature: see `QuestionDecoder.forward`.
        """
        return self.decoder(self.initial_hidden(conditions, z), question, temperature)

    def forward(self, batch: VQABatch) -> GeneratorOutput:
        """The objective's terms for a batch, with one z from the posterior of each question."""
        conditions = self.conditions(batch.images, batch.answer)
        posterior = self.posterior(batch.question, conditions)
        z = None if posterior is None else posterior.sample(torch.randn_like(posterior.mean))
        log_probs = self.token_log_probs(batch.question, z, conditions)
        return GeneratorOutput(
            log_likelihood=log_probs.sum(dim=1),
            num_tokens=batch.question.lengths + 1,
            kl=None if posterior is None else posterior.kl(),
            mean=None if posterior is None else posterior.mean,
        )

    def prior(self, num: int, generator: torch.Generator | None = None) -> Tensor | None:
        """Draws z ~ N(0, I), (num, d_z), on the decoder's device; None without z."""
        if not self.latent_size:
            return None
        device = self.decoder.output.weight.device
        source = device if generator is None else generator.device
        return torch.randn(num, self.latent_size, generator=generator, device=source).to(device)

    def decoding(self, conditions: Conditions, z: Tensor | None) -> tuple[Step, State]:
        """A step function and the initial state of N rows, for a strategy of `decoding`."""
        hidden = self.initial_hidden(conditions, z)
        return self.decoder.stepper(len(hidden)), self.decoder.start(hidden)
