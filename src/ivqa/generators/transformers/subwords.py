"""The tokens of a transformers model as the vocabulary of a question generator."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.generators.networks.decoder import word_log_probs
from ivqa.text.tokens import tokenise
from ivqa.text.vocabulary import SPECIALS, UNK, Tokens, Vocabulary, padded

FIRST = len(SPECIALS)
"""Index of the model's token 0; <pad>, <bos>, <eos> and <unk> come before it."""


class SubwordVocabulary(Vocabulary):
    """Token t of a model has the index t + 4, so that every decoding strategy can draw it.

    Texts are written in one form, whatever their case and punctuation are: likelihoods of questions
    from different sources can then be compared, as with a vocabulary of words. The tokeniser's own
    marks (of images, of turns in a chat) are <unk>, which no strategy chooses.

    Args:
        tokenizer: A tokeniser of transformers.
        size: Number of the model's logits; it may exceed that of the tokeniser's tokens.
        write: Writes words as a text, such as `detokenise`.
        prefix: Text before each text: " " for tokenisers whose words begin with their space.
        marks: Further tokens that are no text.

    Attributes:
        marks: All tokens that are no text, ascending.
        filler: A token of the model in place of <pad> and <unk>, where its value does not matter.
    """

    def __init__(
        self,
        tokenizer: Any,
        size: int,
        *,
        write: Callable[[Sequence[str]], str],
        prefix: str = "",
        marks: Sequence[int] = (),
    ) -> None:
        super().__init__([])
        self.tokenizer = tokenizer
        self.size = size
        self.write = write
        self.prefix = prefix
        added = tokenizer.added_tokens_decoder
        special = {at for at, token in added.items() if token.special}
        beyond = range(len(tokenizer), size)
        self.marks = sorted({*special, *tokenizer.all_special_ids, *beyond, *marks})
        self._silent = frozenset(self.marks)
        pad = tokenizer.pad_token_id
        self.filler = int(tokenizer.eos_token_id if pad is None else pad)

    def __len__(self) -> int:
        return FIRST + self.size

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __contains__(self, word: str) -> bool:
        return UNK not in self._indices([word])[0]

    @override
    def encode(self, texts: Sequence[str], max_length: int | None = None) -> Tokens:
        rows = self._indices([self.write(tokenise(text)) for text in texts])
        return padded([row[:max_length] for row in rows])

    def translate(self, tokens: Tokens, words: Vocabulary) -> Tokens:
        """Converts B texts in another vocabulary, `words`, to this one, on the same device.

        The other vocabulary's <unk> becomes one <unk>.
        """
        table = (*SPECIALS, *words.words)
        ids, lengths = tokens.ids.tolist(), tokens.lengths.tolist()
        rows = [
            [table[at] for at in row[:length]] for row, length in zip(ids, lengths, strict=True)
        ]
        return padded(self._indices([self.write(row) for row in rows])).to(tokens.ids.device)

    @override
    def decode(self, tokens: Tokens) -> list[str]:
        """Converts tokens to texts in the form of this vocabulary; <unk> is left out."""
        ids, lengths = tokens.ids.tolist(), tokens.lengths.tolist()
        rows = [
            [at - FIRST for at in row[:length] if at >= FIRST]
            for row, length in zip(ids, lengths, strict=True)
        ]
        # Of no text, batch_decode makes an empty one.
        texts = self.tokenizer.batch_decode(rows, skip_special_tokens=True) if rows else []
        return [self.write(tokenise(text)) for text in texts]

    def of_model(self, ids: Tensor) -> Tensor:
        """Converts indices of this vocabulary, of any shape, to tokens of the model.

        Special tokens become `filler`.
        """
        return (ids - FIRST).where(ids >= FIRST, self.filler)

    def _indices(self, texts: Sequence[str]) -> list[list[int]]:
        """The indices of written texts, in which <unk> stands for an unknown word."""
        parts = [(self.prefix + text).split(SPECIALS[UNK]) for text in texts]
        flat = [part for own in parts for part in own]
        read = iter(self.tokenizer(flat, add_special_tokens=False)["input_ids"] if flat else [])
        rows = []
        for own in parts:
            row: list[int] = []
            for number in range(len(own)):
                row += [UNK] * (number > 0)
                row += [UNK if at in self._silent else at + FIRST for at in next(read)]
            rows.append(row)
        return rows


class SubwordScores(nn.Module):
    """Log-probabilities of the tokens of a `SubwordVocabulary`, from the logits of a model.

    All tokens `ends` that end a text are <eos>, and all other marks are <unk>: their probabilities
    are added, so that the model's own distribution is kept.
    """

    _ends: Tensor  # int64
    _marks: Tensor  # tokens that are no text, without ends, int64
    _silent: Tensor  # (V - 4,) bool, true for both

    def __init__(self, vocabulary: SubwordVocabulary, ends: Sequence[int]) -> None:
        super().__init__()
        silent = torch.zeros(vocabulary.size, dtype=torch.bool)
        silent[vocabulary.marks] = True
        marks = [token for token in vocabulary.marks if token not in ends]
        self.register_buffer("_ends", torch.tensor(ends), persistent=False)
        self.register_buffer("_marks", torch.tensor(marks, dtype=torch.int64), persistent=False)
        self.register_buffer("_silent", silent, persistent=False)

    def forward(self, logits: Tensor) -> Tensor:
        """Converts the model's logits (..., V - 4) to logits of this vocabulary, (..., V) float32.

        <pad> and <bos> have probability zero.
        """
        logits = logits.float()
        ends = logits[..., self._ends].logsumexp(dim=-1, keepdim=True)
        never = torch.full_like(ends, float("-inf"))
        marks = never
        if len(self._marks):
            marks = logits[..., self._marks].logsumexp(dim=-1, keepdim=True)
        # In the order of <pad>, <bos>, <eos>, <unk>.
        text = logits.masked_fill(self._silent, float("-inf"))
        return torch.cat([never, never, ends, marks, text], dim=-1)

    def of(self, logits: Tensor, question: Tokens, temperature: float | None = None) -> Tensor:
        """Scores the tokens and the end of questions (N, T): (N, T + 1) float32 in nats.

        Position t of the model's logits (N, T + 1, V - 4) predicts token t; scores after the end
        are 0. `temperature` is that of `QuestionDecoder.forward`.
        """
        return word_log_probs(self(logits), question, temperature)
