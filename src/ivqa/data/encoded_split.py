"""A split as arrays, and the image features that go with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from ivqa.data.batch import ImageBatch, VQABatch
from ivqa.data.loading import Rows
from ivqa.data.vqa_json import VQASplit
from ivqa.text.answers import SoftTargets
from ivqa.text.vocabulary import Tokens


class ImageFeatures(Protocol):
    """Image features of whole splits, addressed by row; `ivqa.features` provides them.

    sizes: last dimension of each feature by name ("grid", "pooled", "concepts").
    """

    sizes: dict[str, int]

    def rows(self, split: str, image_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row numbers of `image_ids` in `split`. Raises UserError for an unknown image."""

    def gather(
        self, split: str, rows: NDArray[np.int64], names: Sequence[str]
    ) -> dict[str, Tensor]:
        """float32 features (M, ...) of the given rows, by name."""

    def extract(self, pictures: Sequence[Image.Image], names: Sequence[str]) -> dict[str, Tensor]:
        """float32 features (M, ...) of M RGB pictures that are in no split, by name."""


@dataclass(frozen=True, eq=False)
class EncodedSplit(Dataset[VQABatch]):
    """A split as arrays: rows in, batch out, without a loop over samples.

    question, answer: N texts as words. answer_type: (N,) int64, -1 unknown. target: (N,) int64,
    -1 outside the answer vocabulary. layout: (N, T) or None. feature_rows: (N,) rows of `features`.
    answer_counts: whether batches carry the counts of `soft_targets` as well as the accuracies.
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

    def __getitem__(self, rows: Rows) -> VQABatch:
        """The batch of `rows` (B,), in that order; images that repeat are gathered once."""
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
        )

    def __len__(self) -> int:
        return len(self.split)

    def _images(self, rows: Rows) -> ImageBatch:
        ids, first, index = np.unique(
            self.split.image_ids[rows], return_index=True, return_inverse=True
        )
        gathered: dict[str, Any] = {}
        if self.features is not None and self.feature_names:
            wanted = self.feature_rows[rows[first]]
            gathered = self.features.gather(self.split.name, wanted, self.feature_names)
        return ImageBatch(ids=torch.from_numpy(ids), index=torch.from_numpy(index), **gathered)


def trimmed(tokens: Tokens, rows: Tensor) -> Tokens:
    """The texts `rows` (B,), no wider than the longest of them."""
    lengths = tokens.lengths[rows]
    width = max(int(lengths.max()), 1) if len(rows) else 1
    return Tokens(tokens.ids[rows, :width], lengths)
