"""Questions of a network on tensors: drawing them and scoring given ones, in chunks."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ivqa.device import rows_of_pass
from ivqa.generators.decoding.strategies import Strategy, concatenate_tokens, trim_tokens
from ivqa.generators.networks.network import Conditions, GeneratorNetwork, Posterior
from ivqa.generators.objective import importance_weighted_bound, importance_weighted_error
from ivqa.text.vocabulary import Tokens

# Rows decoded together: their gates stay near the cache, and memory does not grow with N.
_DECODED_ROWS = 2048
# Two draws from each of encoder and prior; one says nothing about their variance.
_LEAST_FOR_ERROR = 4
# Logits scored together: 8 MiB of float32 (measured: half the time of 256 MiB with 300 words).
_SCORED_LOGITS = 1 << 21


@torch.no_grad()
def draw_questions(
    network: GeneratorNetwork,
    conditions: Conditions,
    pair: Tensor,
    z: Tensor | None,
    strategy: Strategy,
    max_length: int,
    generator: torch.Generator | None = None,
) -> tuple[Tokens, Tensor]:
    """Decodes questions from N z under the conditions of their pairs.

    Args:
        network: The generator, in evaluation mode.
        conditions: Of P pairs.
        pair: (N,) int64, row of `conditions` of each z.
        z: (N, d_z); None without a latent variable.
        strategy: How words are chosen.
        max_length: Words of the longest question.
        generator: Source of the random numbers; None is torch's global one.

    Returns:
        The questions (N * strategy.per_state, T), and log p(q | z, I, a) of each, float32, in nats.
    """
    parts = []
    at_once = network.rows_at_once or rows_of_pass(_DECODED_ROWS, pair.device)
    for rows in torch.arange(len(pair), device=pair.device).split(
        max(at_once // strategy.width, 1)
    ):
        step, state = network.decoding(
            conditions.select(pair[rows]), None if z is None else z[rows]
        )
        parts.append(strategy(step, state, max_length, generator))
    tokens = concatenate_tokens([part.tokens for part in parts])
    return tokens, torch.cat([part.log_likelihood for part in parts])


@dataclass(frozen=True)
class Likelihood:
    """log p(q | I, a) of N questions.

    Attributes:
        value: (N,) float32, in nats: exact, or a lower bound in expectation.
        standard_error: (N,) float32, in nats; None where the value is exact, or of too few z.
    """

    value: Tensor
    standard_error: Tensor | None = None


@torch.no_grad()
def marginal_log_likelihood(
    network: GeneratorNetwork,
    question: Tokens,
    conditions: Conditions,
    pair: Tensor,
    noise: Tensor | None,
) -> Likelihood:
    """Scores log p(q | I, a): exact without a latent variable, else a lower bound of it.

    The first half of the noise gives samples mu + sigma noise_k of q(z | I, q); the second half
    is used as z itself. See `importance_weighted_bound`.

    Args:
        network: The generator, in evaluation mode.
        question: (N, T) words of the questions.
        conditions: Of P pairs.
        pair: (N,) int64, row of `conditions` of each question.
        noise: (K, d_z) from N(0, I), the same for all questions, so that a score depends only on
            its own question, image and answer. None without a latent variable.

    Returns:
        The scores, with standard errors where there is a latent variable.
    """
    if noise is None and network.rows_at_once is not None:
        # It puts rows together itself: those of one pair, which it then reads once.
        log_probs = network.token_log_probs(question, None, conditions.select(pair))
        return Likelihood(log_probs.sum(dim=1))
    samples = 1 if noise is None else len(noise)
    # The larger half where K is odd; K = 1 then gives the ELBO.
    num_posterior = (samples + 1) // 2
    logits_a_row = samples * (question.ids.shape[1] + 1) * network.num_words
    order = question.lengths.argsort()  # questions of similar length together need little padding
    scores, errors = [], []
    logits = rows_of_pass(_SCORED_LOGITS, pair.device)
    for rows in order.split(max(logits // logits_a_row, 1)):
        some, given = trim_tokens(question.select(rows)), conditions.select(pair[rows])
        posterior = network.posterior(some, given)
        if posterior is None or noise is None:
            scores.append(network.token_log_probs(some, None, given).sum(dim=1))
            continue
        # (n, 1, d_z) with noise (K, d_z): K samples for each question.
        spread = Posterior(posterior.mean[:, None], posterior.scale[:, None])
        prior_z = noise[num_posterior:].expand(len(rows), -1, -1)
        z = torch.cat([spread.sample(noise[:num_posterior]), prior_z], dim=1)  # (n, K, d_z)
        repeated = torch.arange(len(rows), device=pair.device).repeat_interleave(samples)
        log_probs = network.token_log_probs(
            some.select(repeated), z.flatten(0, 1), given.select(repeated)
        )  # (n K, T + 1)
        log_likelihood = log_probs.sum(dim=1).view(-1, samples)  # (n, K)
        log_ratio = spread.log_density_ratio(z)  # (n, K)
        scores.append(importance_weighted_bound(log_likelihood, log_ratio, num_posterior))
        if samples >= _LEAST_FOR_ERROR:
            errors.append(importance_weighted_error(log_likelihood, log_ratio, num_posterior))
    back = order.argsort()  # to the order of the questions
    error = torch.cat(errors)[back] if errors else None
    return Likelihood(torch.cat(scores)[back], error)
