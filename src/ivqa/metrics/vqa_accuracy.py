"""VQA accuracy, official, overall and by answer type."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics import Metric

from ivqa.data.batch import ANSWER_TYPES
from ivqa.text.answers import AnswerVocabulary, Revision


def vqa_accuracies(
    predictions: Sequence[str],
    human_answers: Sequence[Sequence[str]],
    *,
    leave_one_out: bool = True,
    revision: Revision = 2018,
) -> NDArray[np.float32]:
    """Accuracy in [0, 1] of each of N predicted answers, as the official evaluation computes it.

    leave_one_out: False is the shortcut min(matches / 3, 1) that many papers report. revision: of
    the official evaluation, see `AnswerMatching`; 2015 is what papers before 2018 used.
    Raises ValueError where the two differ in number.

    >>> vqa_accuracies(["2", "red"], [["2"] * 3 + ["3"] * 7, ["blue"]]).round(2).tolist()
    [0.8999999761581421, 0.0]
    """
    if len(predictions) != len(human_answers):
        raise ValueError(
            f"{len(predictions)} predictions for {len(human_answers)} questions; give one each"
        )
    distinct = {answer: code for code, answer in enumerate(dict.fromkeys(predictions))}
    soft = AnswerVocabulary(list(distinct)).soft_targets(
        human_answers, leave_one_out=leave_one_out, revision=revision
    )
    rows = np.repeat(np.arange(len(soft)), np.diff(soft.offsets))
    chosen = np.array([distinct[answer] for answer in predictions], dtype=np.int64)
    hits = soft.indices == chosen[rows]
    accuracies = np.zeros(len(soft), dtype=np.float32)
    accuracies[rows[hits]] = soft.values[hits]
    return accuracies


class VQAAccuracy(Metric):
    """Mean accuracy over all questions, and over those of each answer type that occurs.

    `compute` returns scalars vqa_accuracy, yes_no, number, other, as fractions.

    >>> metric = VQAAccuracy()
    >>> metric.update(torch.tensor([1.0, 0.0, 0.5]), torch.tensor([0, 0, 2]))
    >>> {name: value.item() for name, value in metric.compute().items()}
    {'vqa_accuracy': 0.5, 'yes_no': 0.5, 'other': 0.5}
    """

    full_state_update = False
    sums: Tensor
    counts: Tensor

    def __init__(self) -> None:
        super().__init__()
        # The last row: questions of unknown type.
        for name in ("sums", "counts"):
            self.add_state(
                name,
                torch.zeros(len(ANSWER_TYPES) + 1, dtype=torch.float64),
                dist_reduce_fx="sum",
            )

    def update(self, accuracy: Tensor, answer_type: Tensor) -> None:
        """Adds B questions: accuracies (B,) in [0, 1], types (B,), -1 where unknown."""
        row = torch.where(answer_type < 0, len(ANSWER_TYPES), answer_type)
        self.sums = self.sums.index_add(0, row, accuracy.to(self.sums.dtype))
        self.counts = self.counts.index_add(0, row, torch.ones_like(accuracy, dtype=torch.float64))

    def compute(self) -> dict[str, Tensor]:
        """The accuracies by name."""
        found = {"vqa_accuracy": (self.sums.sum() / self.counts.sum()).float()}
        for kind, total, count in zip(ANSWER_TYPES, self.sums, self.counts, strict=False):
            if count > 0:
                found[kind.replace("/", "_")] = (total / count).float()
        return found
