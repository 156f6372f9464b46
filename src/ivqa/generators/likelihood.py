"""Tensors in, tensors out: drawing questions from a network and scoring given ones, in chunks."""

import torch
from torch import Tensor

from ivqa.generators.decoding import Strategy, concatenate_tokens, trim_tokens
from ivqa.generators.network import Conditions, Posterior, QuestionGenerator
from ivqa.generators.objective import importance_weighted_bound
from ivqa.text.vocabulary import Tokens

# Rows decoded together: their gates stay near the cache, and memory does not grow with N.
_DECODED_ROWS = 2048
# Logits scored together: 8 MiB of float32 (measured: half the time of 256 MiB with 300 words).
_SCORED_LOGITS = 1 << 21


@torch.no_grad()
def draw_questions(
    network: QuestionGenerator,
    conditions: Conditions,
    pair: Tensor,
    z: Tensor | None,
    strategy: Strategy,
    max_length: int,
    generator: torch.Generator | None = None,
) -> tuple[Tokens, Tensor]:
    """One question for each z under the conditions of its pair.

    conditions: of P pairs. pair: (N,) row of `conditions`. z: (N, d_z) or None.
    Returns tokens (N, T) and log p(q | z, I, a), (N,) float32.
    """
    parts = []
    for rows in torch.arange(len(pair), device=pair.device).split(
        max(_DECODED_ROWS // strategy.width, 1)
    ):
        step, state = network.decoding(
            conditions.select(pair[rows]), None if z is None else z[rows]
        )
        parts.append(strategy(step, state, max_length, generator))
    tokens = concatenate_tokens([part.tokens for part in parts])
    return tokens, torch.cat([part.log_likelihood for part in parts])


@torch.no_grad()
def marginal_log_likelihood(
    network: QuestionGenerator,
    question: Tokens,
    conditions: Conditions,
    pair: Tensor,
    noise: Tensor | None,
) -> Tensor:
    """Scores log p(q | I, a), (N,) float32: exact without a latent variable, else a bound on it.

    question: (N, T). pair: (N,) row of `conditions`. noise: (K, d_z) from N(0, I), the same for
    all questions, so that a score depends on nothing but its own question, image and answer. Its
    first half makes samples mu + sigma noise_k of q(z | I, q), the other is taken as z itself; see
    `importance_weighted_bound`.
    """
    samples = 1 if noise is None else len(noise)
    num_posterior = (samples + 1) // 2
    logits_a_row = samples * (question.ids.shape[1] + 1) * network.decoder.num_words
    order = question.lengths.argsort()  # questions of one length together need little padding
    scores = []
    for rows in order.split(max(_SCORED_LOGITS // logits_a_row, 1)):
        some, given = trim_tokens(question.select(rows)), conditions.select(pair[rows])
        posterior = network.posterior(some, given)
        if posterior is None or noise is None:
            scores.append(network.token_log_probs(some, None, given).sum(dim=1))
            continue
        # (n, 1, d_z) against noise (K, d_z): K samples a question
        spread = Posterior(posterior.mean[:, None], posterior.scale[:, None])
        prior_z = noise[num_posterior:].expand(len(rows), -1, -1)
        z = torch.cat([spread.sample(noise[:num_posterior]), prior_z], dim=1)  # (n, K, d_z)
        repeated = torch.arange(len(rows), device=pair.device).repeat_interleave(samples)
        log_probs = network.token_log_probs(
            some.select(repeated), z.flatten(0, 1), given.select(repeated)
        )
        log_likelihood = log_probs.sum(dim=1).view(-1, samples)
        log_ratio = spread.log_density_ratio(z)
        scores.append(importance_weighted_bound(log_likelihood, log_ratio, num_posterior))
    return torch.cat(scores)[order.argsort()]
