"""Beam search on whole batches."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from ivqa.errors import UserError
from ivqa.generators.decoding.strategies import (
    MINUS_INFINITY,
    Decoded,
    empty_questions,
    trim_tokens,
)
from ivqa.generators.networks.decoder import State, Step
from ivqa.ranges import Count, NonNegative
from ivqa.text.vocabulary import BOS, EOS, PAD, UNK


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
    per_state: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(f"beam size must be at least 1, not {self.size}")
        if self.length_norm < 0:
            raise UserError(f"length_norm must not be negative, but is {self.length_norm}")

    @property
    def width(self) -> int:
        """Number of rows that are decoded for one state: its beams."""
        return self.size

    def __call__(
        self, step: Step, state: State, max_length: int, generator: torch.Generator | None = None
    ) -> Decoded:
        """Decodes the best question found for each row of `state`; see `Strategy`."""
        num, device, size = state[0].shape[0], state[0].device, self.size
        best = torch.full((num,), MINUS_INFINITY, device=device)
        found = empty_questions(num, max_length, device)
        live = torch.arange(num, device=device)  # (M,) rows whose search goes on
        scores = torch.full((num, size), MINUS_INFINITY, device=device)
        # All beams of a question start equal; with more than one, every prefix would occur `size`
        # times.
        scores[:, 0] = 0
        words = torch.full((num, size, max_length), PAD, device=device)
        tokens = torch.full((num, size), BOS, device=device)
        state = tuple(part.repeat_interleave(size, 0) for part in state)

        for position in range(max_length + 1):
            log_probs, state = step(state, tokens.flatten())
            # A question must not contain <unk>.
            log_probs[:, UNK] = MINUS_INFINITY
            num_words = log_probs.shape[1]
            total = scores[:, :, None] + log_probs.view(-1, size, num_words)  # (M, size, V)
            if position == max_length:
                # The last position: a prefix ends here or is dropped.
                ending = total[:, :, EOS]
                parent = torch.arange(size, device=device).expand_as(ending)
            else:
                # Each beam has one <eos>: of 2 * size candidates at least `size` do not end.
                top, index = total.flatten(1).topk(2 * size, dim=1)
                parent, token = index // num_words, index % num_words
                is_end = token == EOS
                # An <eos> that is not among the best `size` candidates would have left the beam.
                ending = top.masked_fill(~is_end, MINUS_INFINITY)[:, :size]

            # The length counts <eos>.
            value, choice = (ending / (position + 1) ** self.length_norm).max(dim=1)
            better = (value > best[live]).nonzero().squeeze(1)
            beam = parent.gather(1, choice[:, None]).squeeze(1)[better]
            best[live[better]] = value[better]
            found.tokens.ids[live[better]] = words[better, beam]
            found.tokens.lengths[live[better]] = position
            found.log_likelihood[live[better]] = ending[better, choice[better]]
            if position == max_length:
                break

            scores, choice = top.masked_fill(is_end, MINUS_INFINITY).topk(size, dim=1)
            parent, tokens = parent.gather(1, choice), token.gather(1, choice)
            # Log-probabilities are at most 0, so this bounds the final score of the live beams.
            bound = scores[:, 0] / (max_length + 1) ** self.length_norm
            open_rows = (bound > best[live]).nonzero().squeeze(1)
            if len(open_rows) == 0:
                break
            scores, tokens, parent = scores[open_rows], tokens[open_rows], parent[open_rows]
            words = words[open_rows[:, None], parent]  # (M', size, max_length)
            words[:, :, position] = tokens
            # Row of `state`: question * size + beam.
            origin = (open_rows[:, None] * size + parent).flatten()
            state = tuple(part.index_select(0, origin) for part in state)
            live = live[open_rows]
        return Decoded(trim_tokens(found.tokens), found.log_likelihood)
