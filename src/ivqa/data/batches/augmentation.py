"""Augmentation of training questions: other wordings, such as noisy ones, drawn in every epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from ivqa.data.batches.batch import VQABatch
from ivqa.data.batches.encoded_split import EncodedSplit, trimmed
from ivqa.data.loading import Rows, ShuffledBatches
from ivqa.errors import UserError
from ivqa.text.vocabulary import Tokens, Vocabulary

_DRAW = 1  # seeds the draw of wordings differently from the order of the same seed and epoch


class QuestionAugmentation(Protocol):
    """Provides other wordings of questions."""

    @property
    def probability(self) -> float:
        """Probability in [0, 1] that a training step reads another wording of a question."""

    def variants(self, questions: Sequence[str]) -> list[list[str]]:
        """Returns V >= 1 other wordings of N questions, as V lists of N texts."""


@dataclass(frozen=True, eq=False)
class AugmentedSplit(Dataset[VQABatch]):
    """A split whose row r + N v is question r of N in wording v; wording 0 is the original.

    All wordings are encoded once, so a batch is sliced from arrays as without augmentation.

    Args:
        encoded: The split of N questions.
        wordings: Token ids ((V + 1) N, T) int32; batches convert them to int64, and int32 halves
            the memory.
        probability: Probability in [0, 1] of a wording v >= 1.
    """

    encoded: EncodedSplit
    wordings: Tokens
    probability: float

    @classmethod
    def build(
        cls,
        encoded: EncodedSplit,
        augmentation: QuestionAugmentation,
        vocabulary: Vocabulary,
        max_length: int | None,
    ) -> "AugmentedSplit":
        """Encodes the wordings of an augmentation like the questions of a split.

        Raises:
            UserError: The probability is outside [0, 1].
            ValueError: The augmentation provides no other wording.
        """
        if not 0 <= augmentation.probability <= 1:
            raise UserError(f"probability must be in [0, 1], not {augmentation.probability}")
        texts = augmentation.variants(encoded.split.questions)
        if not texts:
            raise ValueError("an augmentation must offer at least one other wording")
        parts = [encoded.question, *(vocabulary.encode(level, max_length) for level in texts)]
        width = max(part.ids.shape[1] for part in parts)
        # V + 1 arrays (N, T_v), padded to a common width T.
        ids = [
            torch.nn.functional.pad(part.ids.int(), (0, width - part.ids.shape[1]))
            for part in parts
        ]
        wordings = Tokens(torch.cat(ids), torch.cat([part.lengths for part in parts]))
        return cls(encoded, wordings, augmentation.probability)

    def draw(self, seed: int, epoch: int) -> Rows:
        """Draws the row (N,) int64 of the wording of each question for one epoch."""
        number = len(self.encoded)
        rng = np.random.default_rng([seed, epoch, _DRAW])
        other = rng.random(number) < self.probability
        wording = rng.integers(1, len(self) // number, number)
        return np.arange(number) + number * np.where(other, wording, 0)

    def __getitem__(self, rows: Rows) -> VQABatch:
        """The batch of `rows` (B,) int64; its attribute `rows` holds rows of the original split."""
        batch = self.encoded[rows % len(self.encoded)]
        question = trimmed(self.wordings, torch.from_numpy(np.asarray(rows, dtype=np.int64)))
        return replace(batch, question=Tokens(question.ids.long(), question.lengths))

    def __len__(self) -> int:
        return len(self.wordings)


class AugmentedBatches(ShuffledBatches):
    """Training batches in the order of `ShuffledBatches`, each question in a drawn wording.

    The draw depends on (seed, epoch) only, so training resumes exactly and all processes agree.
    `order` and `lengths` are the arguments of `ShuffledBatches`.
    """

    def __init__(self, split: AugmentedSplit, *order: Any, **lengths: Any) -> None:
        super().__init__(*order, **lengths)
        self.split = split

    def __iter__(self) -> Iterator[Rows]:
        drawn = self.split.draw(self.seed, self.epoch)
        for rows in super().__iter__():
            yield drawn[rows]
