"""Training on other wordings of the questions, such as noisy ones: drawn anew in every epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from ivqa.data.batch import VQABatch
from ivqa.data.encoded_split import EncodedSplit, trimmed
from ivqa.data.loading import Rows, ShuffledBatches
from ivqa.errors import UserError
from ivqa.text.vocabulary import Tokens, Vocabulary

_DRAW = 1  # keeps the draw of wordings apart from that of the order, of the same seed and epoch


class QuestionAugmentation(Protocol):
    """Other wordings of questions.

    probability: of reading one of them rather than the question itself, each time.
    """

    @property
    def probability(self) -> float:
        """In [0, 1]."""

    def variants(self, questions: Sequence[str]) -> list[list[str]]:
        """V other wordings of N questions, V >= 1 lists of N texts."""


@dataclass(frozen=True, eq=False)
class AugmentedSplit(Dataset[VQABatch]):
    """A split in which row r + N v is question r of N in wording v; wording 0 is its own.

    wordings: ids ((V + 1) N, T) int32, which is half of what batches hold. All of them are encoded
    once: a batch is sliced from arrays like any other. probability: of a wording v >= 1.
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
        """With the augmentation's wordings, cut like questions. Raises ValueError without any."""
        if not 0 <= augmentation.probability <= 1:
            raise UserError(f"probability must be in [0, 1], not {augmentation.probability}")
        texts = augmentation.variants(encoded.split.questions)
        if not texts:
            raise ValueError("an augmentation must offer at least one other wording")
        parts = [encoded.question, *(vocabulary.encode(level, max_length) for level in texts)]
        width = max(part.ids.shape[1] for part in parts)
        ids = [
            torch.nn.functional.pad(part.ids.int(), (0, width - part.ids.shape[1]))
            for part in parts
        ]
        wordings = Tokens(torch.cat(ids), torch.cat([part.lengths for part in parts]))
        return cls(encoded, wordings, augmentation.probability)

    def draw(self, seed: int, epoch: int) -> Rows:
        """For each of the N questions the row (N,) of the wording that this epoch reads."""
        number = len(self.encoded)
        rng = np.random.default_rng([seed, epoch, _DRAW])
        other = rng.random(number) < self.probability
        wording = rng.integers(1, len(self) // number, number)
        return np.arange(number) + number * np.where(other, wording, 0)

    def __getitem__(self, rows: Rows) -> VQABatch:
        """The batch of `rows` (B,); its own `rows` are those of the questions."""
        batch = self.encoded[rows % len(self.encoded)]
        question = trimmed(self.wordings, torch.from_numpy(np.asarray(rows, dtype=np.int64)))
        return replace(batch, question=Tokens(question.ids.long(), question.lengths))

    def __len__(self) -> int:
        return len(self.wordings)


class AugmentedBatches(ShuffledBatches):
    """Training batches in the order of `ShuffledBatches`, every question in a drawn wording.

    The draw is a function of (seed, epoch) alone, so that training resumes exactly and processes
    agree. split: what the wordings are of.
    """

    def __init__(self, split: AugmentedSplit, *order: Any, **lengths: Any) -> None:
        super().__init__(*order, **lengths)
        self.split = split

    def __iter__(self) -> Iterator[Rows]:
        drawn = self.split.draw(self.seed, self.epoch)
        for rows in super().__iter__():
            yield drawn[rows]
