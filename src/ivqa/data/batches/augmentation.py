"""Augmentation of training questions, drawn in every epoch: other wordings, other questions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch.utils.data import Dataset

from ivqa.data.batches.batch import VQABatch
from ivqa.data.batches.encoded_split import EncodedSplit, trimmed
from ivqa.data.extended import joined
from ivqa.data.loading import Rows, ShuffledBatches
from ivqa.data.split import VQASplit
from ivqa.errors import UserError
from ivqa.terminal import terminal
from ivqa.text.vocabulary import Tokens, Vocabulary

_DRAW = 1  # seeds the draw of wordings differently from the order of the same seed and epoch


class QuestionAugmentation(Protocol):
    """Provides other wordings of questions."""

    @property
    def probability(self) -> float:
        """Probability in [0, 1] that a training step reads another wording of a question."""

    def variants(self, questions: Sequence[str]) -> list[list[str]]:
        """Returns V >= 1 other wordings of N questions, as V lists of N texts."""


@runtime_checkable
class AnsweredAugmentation(Protocol):
    """Provides further questions with answers, each of which may replace a training question."""

    @property
    def probability(self) -> float:
        """Probability in [0, 1] that a training step reads a further question instead."""

    def further(self, split: VQASplit) -> tuple[VQASplit, Rows]:
        """Returns M >= 1 further questions, and the rows (M,) of `split` that they may replace."""


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


@dataclass(frozen=True, eq=False)
class SubstitutedSplit(Dataset[VQABatch]):
    """A split of N questions and M further ones, which replace them.

    Args:
        encoded: The N questions, then the M further ones.
        number: N.
        replaced: For each of the N + M, the row of the N that it stands for, int64.
        further: Rows of the further questions that are trained on, ascending in `replaced`.
        probability: Probability in [0, 1] that a question with further ones is replaced.
    """

    encoded: EncodedSplit
    number: int
    replaced: Rows
    further: Rows
    probability: float

    @classmethod
    def build(
        cls,
        original: EncodedSplit,
        augmentation: AnsweredAugmentation,
        encode: Callable[[VQASplit], EncodedSplit],
        drop_unknown_answers: bool,
    ) -> "SubstitutedSplit":
        """Encodes the further questions of an augmentation together with those of a split.

        Further questions whose answer is unknown are left out if `drop_unknown_answers`; their
        number is printed.

        Raises:
            UserError: The model learns from expert layouts, which the further questions lack.
        """
        split = original.split
        more, rows = augmentation.further(split)
        encoded = encode(joined(split, more))
        if original.layout is not None and encoded.layout is None:
            raise UserError(
                "this model learns from expert layouts, which the questions of augment= lack; use "
                "augment=none, or a model without layouts, such as model=mlb"
            )
        replaced = np.concatenate([np.arange(len(split)), rows])
        order = len(split) + np.argsort(rows, kind="stable")
        further = order[encoded.target.numpy()[order] >= 0] if drop_unknown_answers else order
        terminal().print(
            f"augment: {len(further):,} further questions for {len(np.unique(replaced[further])):,}"
            f" of the {len(split):,} training questions; {len(more) - len(further):,} are left "
            "out, whose answers the model does not know",
            soft_wrap=True,
        )
        return cls(encoded, len(split), replaced, further, augmentation.probability)

    def draw(self, seed: int, epoch: int) -> Rows:
        """Draws the row (N,) int64 that stands for each question in one epoch."""
        rng = np.random.default_rng([seed, epoch, _DRAW])
        counts = np.bincount(self.replaced[self.further], minlength=self.number)
        chosen = (rng.random(self.number) < self.probability) & (counts > 0)
        place = np.cumsum(counts) - counts + rng.integers(0, np.maximum(counts, 1))
        drawn = np.arange(self.number)
        drawn[chosen] = self.further[place[chosen]]
        return drawn

    def __getitem__(self, rows: Rows) -> VQABatch:
        """The batch of `rows` (B,) int64; its attribute `rows` holds rows of the original split."""
        return replace(self.encoded[rows], rows=torch.from_numpy(self.replaced[rows]))

    def __len__(self) -> int:
        return len(self.encoded)


class AugmentedBatches(ShuffledBatches):
    """Training batches in the order of `ShuffledBatches`, each question as it is drawn.

    The draw depends on (seed, epoch) only, so training resumes exactly and all processes agree.
    `order` and `lengths` are the arguments of `ShuffledBatches`.
    """

    def __init__(
        self, split: AugmentedSplit | SubstitutedSplit, *order: Any, **lengths: Any
    ) -> None:
        super().__init__(*order, **lengths)
        self.split = split

    def __iter__(self) -> Iterator[Rows]:
        drawn = self.split.draw(self.seed, self.epoch)
        for rows in super().__iter__():
            yield drawn[rows]
