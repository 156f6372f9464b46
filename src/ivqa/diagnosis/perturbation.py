"""Questions that nobody asks: real ones, damaged at random. Negatives for the legality model."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ivqa.text.vocabulary import PAD, SPECIALS, Tokens

KINDS = ("swap", "drop", "repeat", "replace", "truncate", "splice")


def perturb(
    questions: Tokens, num_words: int, kind: Tensor, generator: torch.Generator | None = None
) -> Tokens:
    """Each of B questions damaged once.

    Two words change places, one is left out, said twice or replaced by any word of the vocabulary,
    the end is cut off, or the beginning goes on as the end of the next of the B questions, which is
    the mistake that a generator makes when it mixes two ways to ask. A question of one word is
    always replaced.

    Args:
        questions: (B, T).
        num_words: Size of the vocabulary, specials included.
        kind: (B,) index into KINDS.
        generator: Of the random numbers; None takes torch's global one.

    Returns:
        The damaged questions, (B, T + 1): a word may have been repeated. What is longer is cut.
    """
    ids = F.pad(questions.ids, (0, 1), value=PAD)  # (B, T + 1): room for a repeated word
    lengths, (size, width) = questions.lengths, ids.shape
    device = ids.device
    kind = torch.where(lengths < 2, KINDS.index("replace"), kind)
    draws = torch.rand(3, size, generator=generator).to(device)
    at = (draws[0] * lengths).long()  # (B,) a word of each question
    shift = 1 + (draws[1] * (lengths - 1).clamp_min(0)).long()
    other = (at + shift) % lengths.clamp_min(1)  # another word of it
    columns = torch.arange(width, device=device).expand(size, -1)
    here, there = at[:, None], other[:, None]

    def chosen(name: str) -> Tensor:
        return (kind == KINDS.index(name))[:, None]

    index = columns
    index = torch.where(chosen("drop") & (columns >= here), columns + 1, index)
    index = torch.where(chosen("repeat") & (columns > here), columns - 1, index)
    index = torch.where(chosen("swap") & (columns == here), there, index)
    index = torch.where(chosen("swap") & (columns == there), here, index)
    damaged = ids.gather(1, index.clamp_max(width - 1))
    words = len(SPECIALS) + (draws[2] * (num_words - len(SPECIALS))).long()
    damaged = torch.where(chosen("replace") & (columns == here), words[:, None], damaged)

    # Splice: the first `at` words, then those of the next question from `start` on.
    kept = at.clamp_min(1)
    start = (draws[1] * lengths.roll(-1)).long()
    tail = ids.roll(-1, 0).gather(1, (columns - (kept - start)[:, None]).clamp(0, width - 1))
    damaged = torch.where(chosen("splice") & (columns >= kept[:, None]), tail, damaged)
    spliced = (kept + lengths.roll(-1) - start).clamp_max(width)

    lengths = torch.where(kind == KINDS.index("splice"), spliced, lengths)
    lengths = torch.where(kind == KINDS.index("drop"), lengths - 1, lengths)
    lengths = torch.where(kind == KINDS.index("repeat"), lengths + 1, lengths)
    lengths = torch.where(kind == KINDS.index("truncate"), at.clamp_min(1), lengths)
    damaged = damaged.masked_fill(columns >= lengths[:, None], PAD)
    return Tokens(damaged, lengths)


def fingerprints(questions: Tokens) -> Tensor:
    """(B,) int64 that are equal where the words are, whatever the padding."""
    # Multiplication by fixed odd numbers, modulo 2^64; PAD is 0 and adds nothing.
    width = questions.ids.shape[1]
    powers = torch.full((width,), 6364136223846793005, device=questions.ids.device).cumprod(0)
    return (questions.ids * powers).sum(dim=1)
