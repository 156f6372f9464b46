"""Real questions damaged at random: negatives for the legality model."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ivqa.text.vocabulary import PAD, SPECIALS, Tokens

KINDS = ("swap", "drop", "repeat", "replace", "truncate", "splice")


def perturb(
    questions: Tokens, num_words: int, kind: Tensor, generator: torch.Generator | None = None
) -> Tokens:
    """Damages each of B questions once.

    - "swap": two words change places.
    - "drop": one word is left out.
    - "repeat": one word occurs twice.
    - "replace": one word becomes a random word of the vocabulary.
    - "truncate": the end is cut off.
    - "splice": the beginning is joined to the end of the next of the B questions. Generators make
      this mistake when they mix two phrasings.

    A question of one word is always damaged by "replace".

    Args:
        questions: B questions, ids (B, T).
        num_words: Size of the vocabulary, special tokens included.
        kind: (B,) int64, index into `KINDS`.
        generator: Random numbers, on the CPU; None takes torch's global generator.

    Returns:
        The damaged questions, ids (B, T + 1), cut where they are longer.
    """
    ids = F.pad(questions.ids, (0, 1), value=PAD)  # (B, T + 1): room for a repeated word
    lengths, (size, width) = questions.lengths, ids.shape
    device = ids.device
    kind = torch.where(lengths < 2, KINDS.index("replace"), kind)
    # Three uniform numbers a question: for the word, another word or the tail, and the new word.
    draws = torch.rand(3, size, generator=generator).to(device)
    at = (draws[0] * lengths).long()  # (B,) position of a word
    # A shift of 1 ... length - 1 never leads back to the same word.
    shift = 1 + (draws[1] * (lengths - 1).clamp_min(0)).long()
    other = (at + shift) % lengths.clamp_min(1)  # position of another word
    columns = torch.arange(width, device=device).expand(size, -1)
    here, there = at[:, None], other[:, None]

    def chosen(name: str) -> Tensor:
        return (kind == KINDS.index(name))[:, None]

    damaged = ids.gather(1, _source_positions(kind, columns, here, there))
    words = len(SPECIALS) + (draws[2] * (num_words - len(SPECIALS))).long()
    damaged = torch.where(chosen("replace") & (columns == here), words[:, None], damaged)

    # Splice: the first `kept` words, then the words of the next question from `start` on.
    kept = at.clamp_min(1)
    start = (draws[1] * lengths.roll(-1)).long()
    # Column c takes word start + c - kept of the next question.
    tail = ids.roll(-1, 0).gather(1, (columns - (kept - start)[:, None]).clamp(0, width - 1))
    damaged = torch.where(chosen("splice") & (columns >= kept[:, None]), tail, damaged)
    spliced = (kept + lengths.roll(-1) - start).clamp_max(width)

    lengths = torch.where(kind == KINDS.index("splice"), spliced, lengths)
    lengths = torch.where(kind == KINDS.index("drop"), lengths - 1, lengths)
    lengths = torch.where(kind == KINDS.index("repeat"), lengths + 1, lengths)
    lengths = torch.where(kind == KINDS.index("truncate"), at.clamp_min(1), lengths)
    # Words of the old question may be left behind the new end.
    damaged = damaged.masked_fill(columns >= lengths[:, None], PAD)
    return Tokens(damaged, lengths)


def _source_positions(kind: Tensor, columns: Tensor, here: Tensor, there: Tensor) -> Tensor:
    """Position in the question of each word of the damaged question, (B, T + 1).

    `here` and `there` (B, 1) are the positions of the word that is damaged and of another one.
    """

    def chosen(name: str) -> Tensor:
        return (kind == KINDS.index(name))[:, None]

    index = columns
    index = torch.where(chosen("drop") & (columns >= here), columns + 1, index)
    index = torch.where(chosen("repeat") & (columns > here), columns - 1, index)
    index = torch.where(chosen("swap") & (columns == here), there, index)
    index = torch.where(chosen("swap") & (columns == there), here, index)
    return index.clamp_max(columns.shape[1] - 1)


def fingerprints(questions: Tokens) -> Tensor:
    """Hashes B questions by their words, whatever their padding; (B,) int64."""
    # A polynomial modulo 2^64, with powers of the multiplier of Knuth's MMIX generator as
    # coefficients. PAD is 0 and adds nothing.
    width = questions.ids.shape[1]
    powers = torch.full((width,), 6364136223846793005, device=questions.ids.device).cumprod(0)
    return (questions.ids * powers).sum(dim=1)
