"""The parts that all networks p(q | z, I, a) share: conditions, posterior, likelihood, decoding."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.generators.networks.attention import Grids
from ivqa.generators.networks.decoder import Look, QuestionDecoder, State, Step
from ivqa.generators.objective import kl_to_standard_normal
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens


@dataclass(frozen=True)
class Conditions:
    """The contribution of image and answer to P pairs, projected once for each pair.

    Args:
        decoder: (P, d_h), the part of the decoder's h_0 that does not depend on z.
        encoder: (P, d_h), h_0 of the question encoder; None without a latent variable.
        grids: The grids that the words of the P pairs attend to; None without attention.
        images: The images themselves, for a network that reads pixels.
        answer: The answers of the P pairs, for a network that reads them word by word.
    """

    decoder: Tensor
    encoder: Tensor | None = None
    grids: Grids | None = None
    images: ImageBatch | None = None
    answer: Tokens | None = None

    def select(self, rows: Tensor) -> "Conditions":
        """Selects the conditions of the pairs `rows` (N,) int64, which may occur several times."""
        encoder = None if self.encoder is None else self.encoder[rows]
        grids = None if self.grids is None else self.grids.select(rows)
        images = None if self.images is None else self.images.select(rows)
        answer = None if self.answer is None else self.answer.select(rows)
        return Conditions(self.decoder[rows], encoder, grids, images, answer)

    def __len__(self) -> int:
        return self.decoder.shape[0]


@dataclass(frozen=True)
class Posterior:
    """The approximate posterior q(z | I, q) = N(mean, scale^2 I).

    Args:
        mean: (B, d_z), or a shape that broadcasts with the noise of `sample`.
        scale: The standard deviation, > 0, of the same shape.
    """

    mean: Tensor
    scale: Tensor

    def sample(self, noise: Tensor) -> Tensor:
        """Draws z = mean + scale * noise, differentiable in both, with noise from N(0, I)."""
        return self.mean + self.scale * noise

    def noise(self, z: Tensor) -> Tensor:
        """The noise that `sample` makes z of, (z - mean) / scale, of the broadcast shape."""
        return (z - self.mean) / self.scale

    def kl(self) -> Tensor:
        """KL(q(z | I, q) || N(0, I)) of every dimension, (B, d_z), in nats."""
        return kl_to_standard_normal(self.mean, self.scale)

    def log_density_ratio(self, z: Tensor) -> Tensor:
        """Computes log q(z | I, q) - log N(z; 0, I) in nats, (B,), of z (B, d_z).

        z may have a shape that broadcasts with `mean`; the last axis is summed.
        """
        # log N(z; mean, scale^2) - log N(z; 0, 1); the constants log(2 pi) / 2 cancel.
        noise = self.noise(z)
        return (0.5 * (z.square() - noise.square()) - self.scale.log()).sum(dim=-1)


@dataclass(frozen=True)
class GeneratorOutput:
    """The terms of the objective for B questions, in nats.

    Args:
        log_likelihood: log p(q | z, I, a), (B,) float32.
        num_tokens: Number of words, <eos> included, (B,) int64.
        kl: KL of every latent dimension, (B, d_z); None without a latent variable.
        mean: Mean of the posterior, (B, d_z); None without a latent variable.
        penalty: A further term of the loss, (B,), which is no part of the bound; None without one.
    """

    log_likelihood: Tensor
    num_tokens: Tensor
    kl: Tensor | None = None
    mean: Tensor | None = None
    penalty: Tensor | None = None

    @property
    def elbo(self) -> Tensor:
        """The bound log p(q | z, I, a) - KL, (B,); without a latent variable log p(q | I, a)."""
        return self.log_likelihood if self.kl is None else self.log_likelihood - self.kl.sum(dim=1)


class GeneratorNetwork(nn.Module, ABC):
    """A network p(q | z, I, a); most are a `QuestionGenerator`, whose decoder is an LSTM."""

    num_words: int
    """V, size of the question vocabulary with its special tokens."""

    latent_size: int = 0
    """d_z; 0 without a latent variable."""

    rows_at_once: int | None = None
    """Questions that a large network reads together; None: `likelihood` puts them together."""

    @abstractmethod
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """Projects the image features and the words of the answers of P pairs."""

    def posterior(self, question: Tokens, conditions: Conditions) -> Posterior | None:
        """Computes q(z | I, q) of N questions (N, T); None without a latent variable."""
        return None

    @abstractmethod
    def token_log_probs(
        self,
        question: Tokens,
        z: Tensor | None,
        conditions: Conditions,
        temperature: float | None = None,
    ) -> Tensor:
        """Scores log p(w_t | w_<t; z, I, a) of words and <eos>, differentiably in weights and z.

        Args:
            question: (N, T) words of the questions.
            z: (N, d_z); None without a latent variable.
            conditions: Of the N rows.
            temperature: See `QuestionDecoder.forward`.

        Returns:
            (N, T + 1) float32, in nats; 0 after <eos>.
        """

    def forward(self, batch: VQABatch) -> GeneratorOutput:
        """Computes the terms of the objective, with one z from the posterior of each question."""
        conditions = self.conditions(batch.images, batch.answer)
        posterior = self.posterior(batch.question, conditions)
        # One draw of z (B, d_z) estimates the expectation of the bound.
        z = None if posterior is None else posterior.sample(torch.randn_like(posterior.mean))
        log_probs = self.token_log_probs(batch.question, z, conditions)  # (B, T + 1)
        return GeneratorOutput(
            log_likelihood=log_probs.sum(dim=1),
            num_tokens=batch.question.lengths + 1,  # <eos> counts
            kl=None if posterior is None else posterior.kl(),
            mean=None if posterior is None else posterior.mean,
        )

    def prior(self, num: int, generator: torch.Generator | None = None) -> Tensor | None:
        """Draws z ~ N(0, I), (num, d_z) on the network's device; None without a latent variable.

        The generator is the source of the random numbers; None is torch's global one.
        """
        if not self.latent_size:
            return None
        device = next(self.parameters()).device
        # Drawn where the generator is, so that a CPU generator gives the same z on every device.
        source = device if generator is None else generator.device
        return torch.randn(num, self.latent_size, generator=generator, device=source).to(device)

    @abstractmethod
    def decoding(self, conditions: Conditions, z: Tensor | None) -> tuple[Step, State]:
        """Prepares the decoding of questions by a `Strategy`, with z (N, d_z) or None.

        Returns:
            The step function and the initial state of the N rows.
        """


class QuestionGenerator(GeneratorNetwork):
    """A network p(q | z, I, a) around a `QuestionDecoder`, whose arguments it takes.

    A subclass implements `conditions`. One with a latent variable also sets `latent_size` and
    implements `initial_hidden` and `posterior`. A subclass passes the arguments on.
    """

    def __init__(
        self,
        *,
        num_words: int,
        embedding_size: Count = 512,
        hidden_size: Count = 512,
        word_dropout: ShareBelowOne = 0.0,
        dropout: ShareBelowOne = 0.5,
        feed_condition: bool = False,
    ) -> None:
        super().__init__()
        self.num_words = num_words
        self.decoder = QuestionDecoder(
            num_words=num_words,
            embedding_size=embedding_size,
            hidden_size=hidden_size,
            word_dropout=word_dropout,
            dropout=dropout,
            feed_condition=feed_condition,
        )

    def initial_hidden(self, conditions: Conditions, z: Tensor | None) -> Tensor:
        """Computes h_0 of the decoder, (N, d_h), from conditions and z (N, d_z) or None."""
        return conditions.decoder

    def look(self, conditions: Conditions) -> Look | None:
        """The function by which words look at their images while they are decoded.

        Returns:
            A function of (N', T, d_h) hidden states and their rows (N',) of `conditions` to
            (N', T, d_h); None for a generator that sees the images in h_0 alone.
        """
        return None

    @override
    def token_log_probs(
        self,
        question: Tokens,
        z: Tensor | None,
        conditions: Conditions,
        temperature: float | None = None,
    ) -> Tensor:
        hidden = self.initial_hidden(conditions, z)
        return self.decoder(hidden, question, temperature, self.look(conditions))

    @override
    def decoding(self, conditions: Conditions, z: Tensor | None) -> tuple[Step, State]:
        hidden = self.initial_hidden(conditions, z)
        look = self.look(conditions)
        return self.decoder.stepper(len(hidden), look), self.decoder.start(hidden, look is not None)
