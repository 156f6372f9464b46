"""Settings of batches: what they contain, and how questions are put into them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from ivqa.errors import UserError


@dataclass(frozen=True, kw_only=True)
class BatchContents:
    """The optional parts of a batch; models declare which of them they read.

    Args:
        image_features: Names of image features: "grid", "pooled" or "concepts".
        soft_targets: Whether batches contain the accuracy of every answer, (B, |A|).
        answer_counts: Whether batches contain the number of annotators of every answer, (B, |A|).
        encode_layouts: Converts the expert layouts of N questions to numbers (N, T) int64. Batches
            contain layouts if this function is given and the data has layouts.
    """

    image_features: Sequence[str] = ()
    soft_targets: bool = False
    answer_counts: bool = False
    encode_layouts: Callable[[Sequence[Sequence[str]]], Tensor] | None = None


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How questions are put into batches.

    Args:
        batch_size: Questions in a training batch, which all processes of a training share.
        eval_batch_size: Questions in an evaluation batch of one process.
        length_window: Number of training batches among which questions are sorted by length to
            reduce padding; 1 for no sorting.
        max_question_length: Maximum number of words; longer questions keep their first words.
        drop_unknown_answers: Whether to train only on questions whose main answer is in the answer
            vocabulary.
        seed: Seed of the training order, which depends on the seed and the epoch only.
        group_by_image: Whether the questions of an image follow each other in the training order.
        num_workers: Processes that assemble batches; 0 is fast enough for memory-mapped features.

    Raises:
        UserError: A batch size or `length_window` is below 1.
    """

    batch_size: int = 64
    eval_batch_size: int = 256
    length_window: int = 1
    max_question_length: int = 26
    drop_unknown_answers: bool = False
    seed: int = 0
    group_by_image: bool = False
    num_workers: int = 0

    def __post_init__(self) -> None:
        if min(self.batch_size, self.eval_batch_size, self.length_window) < 1:
            raise UserError(
                f"batch sizes must be at least 1, not {self.batch_size} and "
                f"{self.eval_batch_size}, and so must length_window, {self.length_window}"
            )
