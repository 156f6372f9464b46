"""A split as arrays, joined with its image features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from ivqa.data.batches.batch import ANSWER_TYPES, ImageBatch, VQABatch
from ivqa.data.batches.batch_settings import BatchContents
from ivqa.data.loading import Rows
from ivqa.data.split import VQASplit
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary, SoftTargets
from ivqa.text.vocabulary import Tokens, Vocabulary


class ImageFeatures(Protocol):
    """Image features of whole splits, addressed by row; implemented in `ivqa.features`.

    Attributes:
        sizes: Last dimension of each feature by name ("grid", "pooled", "concepts").
    """

    sizes: dict[str, int]

    def rows(self, split: str, image_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the rows (M,) int64 of `image_ids` (M,) in `split`.

        Raises:
            UserError: An image has no features.
            FileError: The features of the split are absent or damaged.
        """
        ...

    def gather(
        self, split: str, rows: NDArray[np.int64], names: Sequence[str]
    ) -> dict[str, Tensor]:
        """Returns the features `names` of the rows (M,): float32 tensors (M, ...) by name.

        Features that the model itself computes are not returned, but "pixels" (M, 3, H, W) uint8.
        Other shapes are "grid" (M, L, d), "pooled" (M, d) and "concepts" (M, C).

        Raises:
            FileError: The features of the split are absent or damaged.
        """
        ...

    def extract(self, pictures: Sequence[Image.Image], names: Sequence[str]) -> dict[str, Tensor]:
        """Computes features of M RGB images that are in no split; returns what `gather` does.

        Raises:
            ValueError: The store was opened without the network that computes features.
        """
        ...


@dataclass(frozen=True, eq=False)
class EncodedSplit(Dataset[VQABatch]):
    """A split as arrays; indexing with rows gives a batch without a loop over samples.

    Args:
        split: The N questions and answers as texts.
        question: Words of the N questions.
        answer: Words of the N main answers.
        answer_type: As `target` and `counted` in `VQABatch`, of all N questions.
        soft_targets: Accuracies and counts of all answers, or None.
        layout: Expert layouts, (N, T) int64, or None.
        feature_rows: The row of each question's image in `features`, (N,) int64.
        answer_counts: Whether batches contain the counts of `soft_targets` too.
    """

    split: VQASplit
    question: Tokens
    answer: Tokens
    answer_type: Tensor
    target: Tensor
    soft_targets: SoftTargets | None
    layout: Tensor | None
    features: ImageFeatures | None
    feature_names: tuple[str, ...]
    feature_rows: NDArray[np.int64]
    answer_counts: bool = False
    counted: Tensor | None = None

    @classmethod
    def build(
        cls,
        split: VQASplit,
        features: ImageFeatures | None,
        question_vocabulary: Vocabulary,
        answer_words: Vocabulary,
        answer_vocabulary: AnswerVocabulary | None,
        *,
        contents: BatchContents,
        max_question_length: int,
    ) -> "EncodedSplit":
        """Tokenises a split and finds the features of its images; see `VQADataModule`.

        Raises:
            UserError: An image has no features, or a question has no expert layout.
        """
        answers, kinds = answer_vocabulary, {kind: i for i, kind in enumerate(ANSWER_TYPES)}
        soft = None
        if answers is not None and (contents.soft_targets or contents.answer_counts):
            soft = answers.soft_targets(split.answers, rule=split.metric.rule)
        feature_rows = np.zeros(len(split), dtype=np.int64)
        if features is not None and contents.image_features:
            distinct, inverse = np.unique(split.image_ids, return_inverse=True)
            feature_rows = features.rows(split.name, distinct)[inverse]
        return cls(
            split=split,
            question=question_vocabulary.encode(split.questions, max_question_length),
            answer=answer_words.encode(split.main_answers),
            answer_type=torch.tensor(
                [kinds.get(kind, -1) for kind in split.metric.answer_types(split)]
            ),
            counted=torch.from_numpy(split.metric.counted(split)),
            target=(
                torch.full((len(split),), -1)
                if answers is None
                else answers.encode(split.main_answers)
            ),
            soft_targets=soft,
            layout=_layouts(split, contents),
            features=features,
            feature_names=tuple(contents.image_features),
            feature_rows=feature_rows,
            answer_counts=contents.answer_counts,
        )

    def __getitem__(self, rows: Rows) -> VQABatch:
        """The batch of `rows` (B,) int64 in that order; features of an image are read once."""
        index = torch.from_numpy(np.asarray(rows, dtype=np.int64))
        soft = self.soft_targets
        return VQABatch(
            rows=index,
            images=self._images(rows),
            question=trimmed(self.question, index),
            answer=trimmed(self.answer, index),
            answer_type=self.answer_type[index],
            target=self.target[index],
            soft_targets=None if soft is None else soft.dense(rows),
            layout=None if self.layout is None else self.layout[index],
            answer_counts=(
                soft.dense_counts(rows) if soft is not None and self.answer_counts else None
            ),
            counted=None if self.counted is None else self.counted[index],
        )

    def __len__(self) -> int:
        return len(self.split)

    def _images(self, rows: Rows) -> ImageBatch:
        # ids: (M,) distinct images, first: (M,) a sample of each, index: (B,) image of each sample.
        ids, first, index = np.unique(
            self.split.image_ids[rows], return_index=True, return_inverse=True
        )
        gathered: dict[str, Any] = {}
        if self.features is not None and self.feature_names:
            wanted = self.feature_rows[rows[first]]
            gathered = self.features.gather(self.split.name, wanted, self.feature_names)
        return ImageBatch(ids=torch.from_numpy(ids), index=torch.from_numpy(index), **gathered)


def trimmed(tokens: Tokens, rows: Tensor) -> Tokens:
    """Selects the texts `rows` (B,) int64, padded to the longest of them, (B, T) with T >= 1."""
    lengths = tokens.lengths[rows]
    width = max(int(lengths.max()), 1) if len(rows) else 1
    return Tokens(tokens.ids[rows, :width], lengths)


def _layouts(split: VQASplit, contents: BatchContents) -> Tensor | None:
    """The expert layouts of the N questions as numbers (N, T); None if they are not requested."""
    if contents.encode_layouts is None or split.layouts is None:
        return None
    absent = [number for number in split.question_ids.tolist() if number not in split.layouts]
    if absent:
        raise UserError(
            f"split '{split.name}' has no layout for question {absent[0]} ({len(absent)} in "
            "all); add them or remove its layout file"
        )
    return contents.encode_layouts([split.layouts[n] for n in split.question_ids.tolist()])
