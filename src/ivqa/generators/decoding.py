"""Decoding strategies: greedy, sampling and beam search on whole batches.

A strategy chooses the words. The log-likelihood that it returns is always the model's own, log p(q)
with <eos>, so that questions of different strategies can be compared. <unk> is never chosen. A
question of `max_length` words is ended by <eos>, which is scored like any other word.
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
    """N decoded questions.

    Args:
        tokens: (N, T) words of the questions.
        log_likelihood: (N,) float32, summed over words and <eos>, in nats.
    """

    tokens: Tokens
    log_likelihood: Tensor


class Strategy(Protocol):
    """How words are chosen."""

    @property
    def deterministic(self) -> bool:
        """Whether the same state always gives the same question."""

    @property
    def width(self) -> int:
        """Number of rows that are decoded for one question."""

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """Decodes one question for each row of `state`.

        Args:
            step: Decodes one word. The strategy writes into the log-probabilities that it returns.
            state: The initial state of N rows.
            max_length: Words of the longest question.
            generator: Source of the random numbers; None is torch's global one.

        Returns:
            N questions.
        """


@dataclass(frozen=True)
class Greedy:
    """Takes the most probable word at each step."""

    deterministic: ClassVar[bool] = True
    width: ClassVar[int] = 1

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """Decodes one question for each row of `state`; see `Strategy`."""
        return _unroll(step, state, max_length, lambda log_probs, rows, t: log_probs.argmax(1))


@dataclass(frozen=True)
class Sampling:
    """Ancestral sampling from p(w)^(1 / temperature), truncated to its most probable words.

    Each row has its own random numbers, so a sample does not depend on the other rows.

    Args:
        temperature: > 0; 1 samples from the model.
        top_k: Keeps the k most probable words, >= 1; None keeps all.
        top_p: Keeps the fewest words that hold this share of the probability, in (0, 1], after
            top_k (Holtzman et al. 2020); None keeps all.

    Raises:
        UserError: An argument is out of its range.
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
        """Samples one question for each row of `state`; see `Strategy`."""
        first = state[0]
        device = first.device if generator is None else generator.device
        uniform = torch.rand(first.shape[0], max_length, generator=generator, device=device)
        uniform = uniform.to(first.device)

        def choose(log_probs: Tensor, rows: Tensor, position: int) -> Tensor:
            return _inverse_cdf(self.probabilities(log_probs), uniform[rows, position])

        return _unroll(step, state, max_length, choose)

    def probabilities(self, log_probs: Tensor) -> Tensor:
        """Computes the weights that words are drawn with.

        Args:
            log_probs: log p(w), (N, V).

        Returns:
            (N, V), >= 0, not normalised.
        """
        if self.temperature == 1 and self.top_k is None and self.top_p is None:
            return log_probs.exp()
        probabilities = (log_probs / self.temperature).softmax(dim=1)
        if self.top_k is not None and self.top_k < probabilities.shape[1]:
            kept, words = probabilities.topk(self.top_k, dim=1)
            probabilities = torch.zeros_like(probabilities).scatter(1, words, kept)
        if self.top_p is not None:
            ranked, words = probabilities.sort(dim=1, descending=True)
            ranked = ranked / ranked.sum(dim=1, keepdim=True)
            before = ranked.cumsum(dim=1) - ranked  # probability of all more probable words
            probabilities = torch.zeros_like(probabilities).scatter(
                1, words, ranked.masked_fill(before >= self.top_p, 0)
            )
        return probabilities


@dataclass(frozen=True)
class Beam:
    """Beam search: keeps the most probable prefixes and returns the best complete question.

    The best question has the largest log p(q) / (number of words with <eos>)^length_norm. Like any
    beam search it may drop the prefix of the greedy question and return a less probable one; this
    is rare.

    Args:
        size: Number of prefixes that are kept, >= 1; 1 gives the greedy question.
        length_norm: Exponent >= 0; 0 compares log-likelihoods.

    Raises:
        UserError: An argument is out of its range.
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
        """Number of rows that are decoded for one question: its beams."""
        return self.size

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """Decodes the best question found for each row of `state`; see `Strategy`."""
        num, device, size = state[0].shape[0], state[0].device, self.size
        best = torch.full((num,), _MINUS_INFINITY, device=device)
        found = _blank(num, max_length, device)
        live = torch.arange(num, device=device)  # (M,) rows whose search goes on
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
                # Each beam has one <eos>: of 2 * size candidates at least `size` do not end.
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
            # Log-probabilities are at most 0, so this bounds the final score of the live beams.
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
    """Concatenates batches of texts.

    Args:
        parts: Batches (N_i, T_i).

    Returns:
        (sum of N_i, max of T_i), padded on the right.
    """
    width = max(part.ids.shape[1] for part in parts)
    ids = [F.pad(part.ids, (0, width - part.ids.shape[1]), value=PAD) for part in parts]
    return Tokens(torch.cat(ids), torch.cat([part.lengths for part in parts]))


def trim_tokens(tokens: Tokens) -> Tokens:
    """Removes padding behind the longest text.

    Args:
        tokens: (N, T).

    Returns:
        (N, T'), where T' is the length of the longest text, but at least 1.
    """
    longest = max(int(tokens.lengths.max()), 1) if len(tokens) else 1
    return Tokens(tokens.ids[:, :longest], tokens.lengths)


def _unroll(
    step: Step,
    state: State,
    max_length: int,
    choose: Callable[[Tensor, Tensor, int], Tensor],
) -> Decoded:
    """Decodes word by word; `choose(log_probs, rows, position)` returns one word for each row."""
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
        unfinished = (tokens != EOS).nonzero().squeeze(1)
        if len(unfinished) == 0:
            break
        # Finished rows are removed: copying the state costs less than a step of these rows.
        if len(unfinished) < len(rows):
            rows, tokens = rows[unfinished], tokens[unfinished]
            state = tuple(part.index_select(0, unfinished) for part in state)
        result.tokens.ids[rows, position] = tokens
        result.tokens.lengths[rows] += 1
    return Decoded(trim_tokens(result.tokens), result.log_likelihood)


def _inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """Draws one index for each row, with probability proportional to its weight.

    It needs one random number for each row; torch.multinomial draws V. An index of weight zero is
    never drawn: its cumulative sum equals that of the index before it.

    Args:
        weights: (N, V), >= 0.
        uniform: (N,) in [0, 1).

    Returns:
        (N,) int64.
    """
    cumulative = weights.cumsum(dim=1)
    total = cumulative[:, -1]
    # uniform * total may round up to total, which lies behind the last index.
    threshold = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, threshold[:, None], right=True).squeeze(1)


def _blank(num: int, max_length: int, device: torch.device) -> Decoded:
    """Empty questions of log-likelihood 0, to be written into."""
    ids = torch.full((num, max_length), PAD, device=device)
    lengths = torch.zeros(num, dtype=torch.int64, device=device)
    return Decoded(Tokens(ids, lengths), torch.zeros(num, device=device))
