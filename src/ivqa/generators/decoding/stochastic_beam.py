"""Sampling without replacement: stochastic beam search (Kool et al. 2019, arXiv:1903.06059)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ivqa.errors import UserError
from ivqa.generators.decoding.strategies import MINUS_INFINITY, Decoded, trim_tokens
from ivqa.generators.networks.decoder import State, Step
from ivqa.ranges import Count, Positive
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens


@dataclass(frozen=True)
class DistinctSampling:
    """Samples k different questions from each state, as draws without replacement would.

    Where fewer than k questions have a probability, some come twice.

    Every question gets a Gumbel number of its own, added to its log-probability; the k largest sums
    are such a sample. Stochastic beam search finds them without listing the questions: the sum of a
    prefix is the largest sum of its questions, so k prefixes suffice at each word.

    Args:
        number: k, at least 1; the questions of a state follow each other in the order of the draws.
        temperature: Temperature of the distribution that is drawn from, above 0.

    Raises:
        UserError: An argument is out of its range.
    """

    number: Count
    temperature: Positive = 1.0
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.number < 1:
            raise UserError(f"number must be at least 1, not {self.number}")
        if not self.temperature > 0:
            raise UserError(f"temperature must be above 0, not {self.temperature}")

    @property
    def width(self) -> int:
        """Number of rows that are decoded for one state."""
        return self.number

    @property
    def per_state(self) -> int:
        """Number of questions that a state becomes."""
        return self.number

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """Decodes k questions for each row of `state`; see `Strategy`."""
        num, device, size = state[0].shape[0], state[0].device, self.number
        source = device if generator is None else generator.device
        state = tuple(part.repeat_interleave(size, 0) for part in state)
        # All prefixes of a state start equal: only the first counts.
        start = torch.full((num, size), MINUS_INFINITY, device=device)
        start[:, 0] = 0
        tempered, gumbel = start, start  # log-probability at the temperature; its Gumbel sum
        log_likelihood = torch.zeros(num, size, device=device)  # of the model
        words = torch.full((num, size, max_length), PAD, device=device)
        lengths = torch.zeros(num, size, dtype=torch.int64, device=device)
        tokens = torch.full((num, size), BOS, device=device)
        ended = torch.zeros(num, size, dtype=torch.bool, device=device)
        for position in range(max_length + 1):
            log_probs, state = step(state, tokens.flatten())
            log_probs[:, UNK] = MINUS_INFINITY  # a question must not contain <unk>
            log_probs = log_probs.view(num, size, -1)
            scaled = (log_probs / self.temperature).log_softmax(dim=2)
            # A question that has ended, or must end here, has <eos> as its only next word.
            only_end = ended | (position == max_length)
            end = torch.full_like(scaled[0, 0], MINUS_INFINITY)
            end[EOS] = 0
            scaled = torch.where(only_end[:, :, None], end, scaled)
            uniform = torch.rand(scaled.shape, generator=generator, device=source).to(device)
            children = tempered[:, :, None] + scaled
            sums = _conditioned(children - (-uniform.log()).log(), gumbel)
            gumbel, choice = sums.flatten(1).topk(size, dim=1)
            parent, tokens = choice // scaled.shape[2], choice % scaled.shape[2]
            tempered = children.flatten(1).gather(1, choice)
            gained = log_probs.flatten(1).gather(1, choice)
            ended = ended.gather(1, parent)
            log_likelihood = log_likelihood.gather(1, parent) + gained.masked_fill(ended, 0)
            words = words.gather(1, parent[:, :, None].expand_as(words))
            ended = ended | (tokens == EOS)
            if position < max_length:
                words[:, :, position] = tokens.masked_fill(ended, PAD)
            lengths = lengths.gather(1, parent) + ~ended
            if bool(ended.all()):
                break
            origin = torch.arange(num, device=device)[:, None] * size + parent
            state = tuple(part.index_select(0, origin.flatten()) for part in state)
        # Where fewer than k questions exist, the first draw fills the rest.
        rows = torch.arange(size, device=device).masked_fill(gumbel == MINUS_INFINITY, 0)
        chosen = (torch.arange(num, device=device)[:, None] * size + rows).flatten()
        found = Tokens(words.flatten(0, 1), lengths.flatten()).select(chosen)
        return Decoded(trim_tokens(found), log_likelihood.flatten()[chosen])


def _conditioned(sums: Tensor, parents: Tensor) -> Tensor:
    """Gumbel sums of the children of each prefix, given that their maximum is that of the prefix.

    Computed as in appendix B.3 of Kool et al., without the exponential of a large number. The sums
    of the children (N, k, V) are at most those of the prefixes (N, k); -inf where these have none.
    """
    largest = sums.amax(dim=2, keepdim=True)
    below = (-torch.expm1(sums - largest)).clamp_min(0).log()  # log(1 - exp(sums - largest))
    v = parents[:, :, None] - sums + below
    conditioned = parents[:, :, None] - v.clamp_min(0) - (-v.abs()).exp().log1p()
    # Of a prefix of sum -inf, or a word of probability 0, nothing is drawn.
    return conditioned.nan_to_num(nan=MINUS_INFINITY, neginf=MINUS_INFINITY)
