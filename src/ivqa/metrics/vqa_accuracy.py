"""Mean accuracy of answers, overall and by answer type."""

import torch
from torch import Tensor
from torchmetrics import Metric

from ivqa.data.batches.batch import ANSWER_TYPES
from ivqa.text.answers import vqa_accuracies as vqa_accuracies


class VQAAccuracy(Metric):
    """Mean VQA accuracy over all questions and by answer type, over batches and processes.

    Example:
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
        # One row for each answer type, and a last row for questions of unknown type.
        for name in ("sums", "counts"):
            self.add_state(
                name,
                torch.zeros(len(ANSWER_TYPES) + 1, dtype=torch.float64),
                dist_reduce_fx="sum",
            )

    def update(self, accuracy: Tensor, answer_type: Tensor) -> None:
        """Adds a batch.

        Args:
            accuracy: (B,) accuracies in [0, 1], as `vqa_accuracies` computes them.
            answer_type: (B,) int64: index into `ANSWER_TYPES`, -1 where unknown.
        """
        row = torch.where(answer_type < 0, len(ANSWER_TYPES), answer_type)
        self.sums = self.sums.index_add(0, row, accuracy.to(self.sums.dtype))
        self.counts = self.counts.index_add(0, row, torch.ones_like(accuracy, dtype=torch.float64))

    def compute(self) -> dict[str, Tensor]:
        """Computes the mean accuracies.

        Returns:
            Float32 scalars in [0, 1]: "vqa_accuracy" over all questions, and "yes_no", "number"
            and "other" where questions of that type occur.
        """
        accuracies = {"vqa_accuracy": (self.sums.sum() / self.counts.sum()).float()}
        # strict=False, because the last row, of unknown type, has no name.
        for kind, total, count in zip(ANSWER_TYPES, self.sums, self.counts, strict=False):
            if count > 0:
                accuracies[kind.replace("/", "_")] = (total / count).float()
        return accuracies
