"""From a step function to questions: greedy, sampling and beam search on whole batches.

A strategy decides which words are taken; the log-likelihood it reports is always the model's own,
log p(q) with <eos>, so that questions found in different ways can be compared. <unk> is never
taken. A question of `max_length` words is ended by <eos>, which is scored like any other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ivqa.errors import UserError
from ivqa.generators.decoder import State, Step
from ivqa.ranges import Count, NonNegative, Positive, PositiveShare
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens

_MINUS_INFINITY = float("-inf")


@dataclass(frozen=True)
class Decoded:
    """N questions and their log-likelihood (N,), float32, the sum over words and <eos>."""

    tokens: Tokens
    log_likelihood: Tensor


class Strategy(Protocol):
    """How words are chosen.

    deterministic: whether the same state always gives the same question. width: how many rows of
    work one question needs.
    """

    @property
    def deterministic(self) -> bool: ...  # noqa: D102

    @property
    def width(self) -> int: ...  # noqa: D102

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """Decodes the N rows of `state`; `step` must return log-probabilities it does not keep."""


@dataclass(frozen=True)
class Greedy:
    """The most probable word, each time."""

    deterministic: ClassVar[bool] = True
    width: ClassVar[int] = 1

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """One question a row of `state`."""
        return _unroll(step, state, max_length, lambda log_probs, rows, t: log_probs.argmax(1))


@dataclass(frozen=True)
class Sampling:
    """Ancestral sampling from p(w)^(1 / temperature), cut to its most probable words.

    top_k: at most so many words. top_p: the fewest words that hold this share of the probability
    (Holtzman et al. 2020), after top_k. Both None: plain samples of the model.
    Every row has its own random numbers: it does not matter what it is decoded with.
    """

    temperature: Positive = 1.0
    top_k: Count | None = None
    top_p: PositiveShare | None = None
    deterministic: ClassVar[bool] = False
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise UserError(f"temperature must be above 0, not {self.temperature}; see Greedy")
        if self.top_k is not None and self.top_k < 1:
            raise UserError(f"top_k must be at least 1 or null, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UserError(f"top_p must be in (0, 1] or null, not {self.top_p}")

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """One question a row of `state`, the same ones for the same `generator` state."""
        first = state[0]
        device = first.device if generator is None else generator.device
        uniform = torch.rand(first.shape[0], max_length, generator=generator, device=device)
        uniform = uniform.to(first.device)

        def choose(log_probs: Tensor, rows: Tensor, position: int) -> Tensor:
            return _inverse_cdf(self.probabilities(log_probs), uniform[rows, position])

        return _unroll(step, state, max_length, choose)

    def probabilities(self, log_probs: Tensor) -> Tensor:
        """What words are drawn from, not normalised; log_probs: (N, V)."""
        if self.temperature == 1 and self.top_k is None and self.top_p is None:
            return log_probs.exp()
        probabilities = (log_probs / self.temperature).softmax(dim=1)
        if self.top_k is not None and self.top_k < probabilities.shape[1]:
            kept, words = probabilities.topk(self.top_k, dim=1)
            probabilities = torch.zeros_like(probabilities).scatter(1, words, kept)
        if self.top_p is not None:
            ranked, words = probabilities.sort(dim=1, descending=True)
            ranked = ranked / ranked.sum(dim=1, keepdim=True)
            before = ranked.cumsum(dim=1) - ranked
            probabilities = torch.zeros_like(probabilities).scatter(
                1, words, ranked.masked_fill(before >= self.top_p, 0)
            )
        return probabilities


@dataclass(frozen=True)
class Beam:
    """Beam search: the `size` most probable prefixes are kept; the best complete question wins.

    Questions compete by log p(q) / (number of tokens with <eos>)^length_norm; 0 is the plain
    likelihood. As usual a beam may, rarely, end below the greedy question, whose prefix it
    dropped; size 1 is the greedy question.
    """

    size: Count = 3  # as in the published code
    length_norm: NonNegative = 0.0
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(f"beam size must be at least 1, not {self.size}")
        if self.length_norm < 0:
            raise UserError(f"length_norm must not be negative, but is {self.length_norm}")

    @property
    def width(self) -> int:
        """Rows of work a question: its beams."""
        return self.size

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """The best question found for each row of `state`."""
        num, device, size = state[0].shape[0], state[0].device, self.size
        best = torch.full((num,), _MINUS_INFINITY, device=device)
        found = _blank(num, max_length, device)
        live = torch.arange(num, device=device)  # rows still searched: M of N
        scores = torch.full((num, size), _MINUS_INFINITY, device=device)
        scores[:, 0] = 0
        words = torch.full((num, size, max_length), PAD, device=device)
        tokens = torch.full((num, size), BOS, device=device)
        state = tuple(part.repeat_interleave(size, 0) for part in state)

        for position in range(max_length + 1):
            log_probs, state = step(state, tokens.flatten())
            log_probs[:, UNK] = _MINUS_INFINITY
            num_words = log_probs.shape[1]
            total = scores[:, :, None] + log_probs.view(-1, size, num_words)  # (M, size, V)
            if position == max_length:
                ending = total[:, :, EOS]
                parent = torch.arange(size, device=device).expand_as(ending)
            else:
                # Each beam has one <eos>, so 2 * size candidates hold `size` that go on.
                top, index = total.flatten(1).topk(2 * size, dim=1)
                parent, token = index // num_words, index % num_words
                is_end = token == EOS
                ending = top.masked_fill(~is_end, _MINUS_INFINITY)[:, :size]

            value, choice = (ending / (position + 1) ** self.length_norm).max(dim=1)
            better = (value > best[live]).nonzero().squeeze(1)
            beam = parent.gather(1, choice[:, None]).squeeze(1)[better]
            best[live[better]] = value[better]
            found.tokens.ids[live[better]] = words[better, beam]
            found.tokens.lengths[live[better]] = position
            found.log_likelihood[live[better]] = ending[better, choice[better]]
            if position == max_length:
                break

            scores, choice = top.masked_fill(is_end, _MINUS_INFINITY).topk(size, dim=1)
            parent, tokens = parent.gather(1, choice), token.gather(1, choice)
            # Log-probabilities only fall, so this bounds what the live beams can still reach.
            bound = scores[:, 0] / (max_length + 1) ** self.length_norm
            open_rows = (bound > best[live]).nonzero().squeeze(1)
            if len(open_rows) == 0:
                break
            scores, tokens, parent = scores[open_rows], tokens[open_rows], parent[open_rows]
            words = words[open_rows[:, None], parent]  # (M', size, max_length)
            words[:, :, position] = tokens
            origin = (open_rows[:, None] * size + parent).flatten()
            state = tuple(part.index_select(0, origin) for part in state)
            live = live[open_rows]
        return Decoded(trim_tokens(found.tokens), found.log_likelihood)


def concatenate_tokens(parts: Sequence[Tokens]) -> Tokens:
    """The tokens of all parts, one after the other, padded to the longest."""
    width = max(part.ids.shape[1] for part in parts)
    ids = [F.pad(part.ids, (0, width - part.ids.shape[1]), value=PAD) for part in parts]
    return Tokens(torch.cat(ids), torch.cat([part.lengths for part in parts]))


def trim_tokens(tokens: Tokens) -> Tokens:
    """The same texts, padded to the longest of them only."""
    longest = max(int(tokens.lengths.max()), 1) if len(tokens) else 1
    return Tokens(tokens.ids[:, :longest], tokens.lengths)


def _unroll(
    step: Step,
    state: State,
    max_length: int,
    choose: Callable[[Tensor, Tensor, int], Tensor],
) -> Decoded:
    """One word at a time for every row; `choose(log_probs, rows, position)` picks the words."""
    num, device = state[0].shape[0], state[0].device
    result = _blank(num, max_length, device)
    rows = torch.arange(num, device=device)
    tokens = torch.full((num,), BOS, device=device)
    for position in range(max_length + 1):
        log_probs, state = step(state, tokens)
        log_probs[:, UNK] = _MINUS_INFINITY
        if position == max_length:
            tokens = torch.full_like(tokens, EOS)
        else:
            tokens = choose(log_probs, rows, position)
        result.log_likelihood[rows] += log_probs.gather(1, tokens[:, None]).squeeze(1)
        going = (tokens != EOS).nonzero().squeeze(1)
        if len(going) == 0:
            break
        if len(going) < len(rows):  # finished rows leave: copying the state is cheaper than a step
            rows, tokens = rows[going], tokens[going]
            state = tuple(part.index_select(0, going) for part in state)
        result.tokens.ids[rows, position] = tokens
        result.tokens.lengths[rows] += 1
    return Decoded(trim_tokens(result.tokens), result.log_likelihood)


def _inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """One index a row with probability proportional to weights (N, V); uniform (N,) in [0, 1).

    One random number a row instead of the V of torch.multinomial. An index of weight zero is
    never drawn: its cumulative sum does not exceed that of the index before it.
    """
    cumulative = weights.cumsum(dim=1)
    total = cumulative[:, -1]
    threshold = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, threshold[:, None], right=True).squeeze(1)


def _blank(num: int, max_length: int, device: torch.device) -> Decoded:
    ids = torch.full((num, max_length), PAD, device=device)
    lengths = torch.zeros(num, dtype=torch.int64, device=device)
    return Decoded(Tokens(ids, lengths), torch.zeros(num, device=device))
