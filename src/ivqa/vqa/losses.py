"""The training losses of a closed answer set, given ten annotators who disagree."""

import math
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

from ivqa.data.batches.batch import VQABatch

Targets = Literal["main", "annotators", "accuracies"]


def answer_losses(logits: Tensor, batch: VQABatch, targets: Targets) -> Tensor:
    """Computes the loss of each question, (B,), from logits (B, |A|).

    "main" is the cross entropy of the annotators' mode, as in deeper LSTM Q + norm I
    [Antol et al. 2015] and HieCoAtt [Lu et al. 2016].

    "annotators" is the cross entropy with the distribution of the annotators' answers in A: the
    count of an answer over the count of all answers in A. It is the expected loss of the papers
    that draw one answer in A each time they read a question, in proportion to its count: MCB
    [Fukui et al. 2016], MUTAN [Ben-younes et al. 2017], N2NMN [Hu et al. 2017]. (MLB
    [Kim et al. 2017] draws from the two most frequent answers only.) A question without an answer
    in A has loss 0.

    "accuracies" is the binary cross entropy of sigmoid(logits - log |A|) with the accuracy of each
    answer, summed over A, as in Teney et al. 2017 ("Tips and tricks"), bottom-up attention and
    MCAN. The accuracies of a question do not sum to 1, so they are not a distribution. The constant
    shift is our addition: at logits of 0, each answer has probability 1 / (|A| + 1), as with the
    biases of RetinaNet [Lin et al. 2017]. Without it, the first epochs of a large A only teach that
    most answers are wrong. A softmax over the logits does not depend on it.

    Raises:
        ValueError: The batch lacks answer_counts ("annotators") or soft_targets ("accuracies").
    """
    if targets == "main":
        return F.cross_entropy(logits, batch.target, reduction="none")
    if targets == "annotators":
        counts = _carried(batch.answer_counts, "answer_counts")
        shares = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
        return F.cross_entropy(logits, shares, reduction="none")
    accuracies = _carried(batch.soft_targets, "soft_targets")
    shifted = logits - math.log(logits.shape[1])
    return F.binary_cross_entropy_with_logits(shifted, accuracies, reduction="none").sum(dim=1)


def _carried(value: Tensor | None, name: str) -> Tensor:
    if value is None:
        raise ValueError(f"the batch carries no {name}; create BatchContents with {name}=True")
    return value
