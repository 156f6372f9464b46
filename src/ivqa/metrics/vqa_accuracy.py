"""Official VQA accuracy (Antol et al. 2015), overall and by answer type."""

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
    """Computes the official VQA accuracy of each predicted answer (Antol et al. 2015).

        accuracy = mean over annotators i of min(1, matches among the other annotators / 3)

    Args:
        predictions: N answers.
        human_answers: The annotators' answers to each of the N questions.
        leave_one_out: False computes min(matches / 3, 1), the short form that many papers report.
        revision: Revision of the official evaluation, see `AnswerMatching`. Papers before 2018
            used 2015.

    Returns:
        (N,) float32 in [0, 1].

    Raises:
        ValueError: Predictions and questions differ in number.

    Example:
        >>> accuracies = vqa_accuracies(["2", "red"], [["2"] * 3 + ["3"] * 7, ["blue"]])
        >>> [round(float(accuracy), 2) for accuracy in accuracies]
        [0.9, 0.0]
    """
    if len(predictions) != len(human_answers):
        raise ValueError(
            f"{len(predictions)} predictions for {len(human_answers)} questions; give one each"
        )
    # Only the predictions can score, so they are the whole vocabulary.
    distinct = {answer: code for code, answer in enumerate(dict.fromkeys(predictions))}
    soft = AnswerVocabulary(list(distinct)).soft_targets(
        human_answers, leave_one_out=leave_one_out, revision=revision
    )
    # The question of each entry of the sparse targets.
    rows = np.repeat(np.arange(len(soft)), np.diff(soft.offsets))
    chosen = np.array([distinct[answer] for answer in predictions], dtype=np.int64)
    hits = soft.indices == chosen[rows]
    accuracies = np.zeros(len(soft), dtype=np.float32)
    accuracies[rows[hits]] = soft.values[hits]
    return accuracies


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
