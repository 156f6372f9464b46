"""Decoding strategies: greedy and sampling, on whole batches; beam search is in `beam`.

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
from ivqa.generators.networks.decoder import State, Step
from ivqa.ranges import Count, Positive, PositiveShare
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK, Tokens, trim_tokens

MINUS_INFINITY = float("-inf")
_LOOK = 4  # words after which a GPU is asked whether all questions have ended, which makes it wait


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
        """Number of rows that are decoded for one state."""

    @property
    def per_state(self) -> int:
        """Number of questions that a state becomes."""

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """Decodes `per_state` questions for each row of `state`, those of one state in a row.

        Args:
            step: Decodes one word. The strategy writes into the log-probabilities that it returns.
            state: The initial state of N rows.
            max_length: Words of the longest question.
            generator: Source of the random numbers; None is torch's global one.
        """


@dataclass(frozen=True)
class Greedy:
    """Takes the most probable word at each step."""

    deterministic: ClassVar[bool] = True
    width: ClassVar[int] = 1
    per_state: ClassVar[int] = 1

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
    per_state: ClassVar[int] = 1

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
        # All numbers are drawn before the words, so a row does not depend on when others end.
        uniform = torch.rand(first.shape[0], max_length, generator=generator, device=device)
        uniform = uniform.to(first.device)

        def choose(log_probs: Tensor, rows: Tensor, position: int) -> Tensor:
            return _inverse_cdf(self.probabilities(log_probs), uniform[rows, position])

        return _unroll(step, state, max_length, choose)

    def probabilities(self, log_probs: Tensor) -> Tensor:
        """Computes the weights (N, V) >= 0 that words are drawn with; they are not normalised."""
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
            # A word is kept while the words before it hold less than top_p, so one word always
            # remains.
            probabilities = torch.zeros_like(probabilities).scatter(
                1, words, ranked.masked_fill(before >= self.top_p, 0)
            )
        return probabilities


def concatenate_tokens(parts: Sequence[Tokens]) -> Tokens:
    """Concatenates batches of texts (N_i, T_i) to (sum of N_i, max of T_i), padded on the right."""
    width = max(part.ids.shape[1] for part in parts)
    ids = [F.pad(part.ids, (0, width - part.ids.shape[1]), value=PAD) for part in parts]
    return Tokens(torch.cat(ids), torch.cat([part.lengths for part in parts]))


def empty_questions(num: int, max_length: int, device: torch.device) -> Decoded:
    """Builds N questions (N, T) of <pad>, for a strategy to write into."""
    ids = torch.full((num, max_length), PAD, device=device)
    lengths = torch.zeros(num, dtype=torch.int64, device=device)
    return Decoded(Tokens(ids, lengths), torch.zeros(num, device=device))


Choose = Callable[[Tensor, Tensor, int], Tensor]
"""(log-probabilities (N, V), rows (N,), position) -> one word for each row, (N,) int64."""


def _unroll(step: Step, state: State, max_length: int, choose: Choose) -> Decoded:
    """Decodes word by word, the way that suits the device."""
    decode = _decode_unfinished if state[0].device.type == "cpu" else _decode_all
    return decode(step, state, max_length, choose)


def _decode_unfinished(step: Step, state: State, max_length: int, choose: Choose) -> Decoded:
    """Decodes the rows that have not ended."""
    num, device = state[0].shape[0], state[0].device
    result = empty_questions(num, max_length, device)
    rows = torch.arange(num, device=device)
    tokens = torch.full((num,), BOS, device=device)
    for position in range(max_length + 1):
        log_probs, state = step(state, tokens)
        tokens = _next(log_probs, rows, position, max_length, choose)
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


def _decode_all(step: Step, state: State, max_length: int, choose: Choose) -> Decoded:
    """Decodes all rows to the end of the longest; what follows <eos> is not kept.

    On a GPU, removing rows would start kernels and wait for their result at each word.
    """
    num, device = state[0].shape[0], state[0].device
    result = empty_questions(num, max_length, device)
    rows = torch.arange(num, device=device)
    tokens = torch.full((num,), BOS, device=device)
    going = torch.ones(num, dtype=torch.bool, device=device)
    for position in range(max_length + 1):
        log_probs, state = step(state, tokens)
        tokens = _next(log_probs, rows, position, max_length, choose)
        gained = log_probs.gather(1, tokens[:, None]).squeeze(1)
        result.log_likelihood.add_(gained.where(going, 0))
        going = going & (tokens != EOS)
        if position == max_length or (position % _LOOK == _LOOK - 1 and not going.any()):
            break
        result.tokens.ids[:, position] = tokens.where(going, PAD)
        result.tokens.lengths.add_(going)
    return Decoded(trim_tokens(result.tokens), result.log_likelihood)


def _next(
    log_probs: Tensor, rows: Tensor, position: int, max_length: int, choose: Choose
) -> Tensor:
    """The words (N,) at a position; after `max_length` words the end, which is scored too."""
    log_probs[:, UNK] = MINUS_INFINITY  # a question must not contain <unk>
    if position == max_length:
        return torch.full_like(rows, EOS)
    return choose(log_probs, rows, position)


def _inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """Draws one index for each row, with probability proportional to its weight.

    It needs one random number for each row; torch.multinomial draws V. An index of weight zero is
    never drawn: its cumulative sum equals that of the index before it.

    weights: (N, V), >= 0; uniform: (N,) in [0, 1); returns (N,) int64.
    """
    cumulative = weights.cumsum(dim=1)
    total = cumulative[:, -1]
    # uniform * total may round up to total, which lies behind the last index.
    threshold = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, threshold[:, None], right=True).squeeze(1)
