"""The prior of the bias table: questions without image and answer (iVQA, table 2)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators.networks.network import Conditions, QuestionGenerator
from ivqa.text.vocabulary import Tokens


class PriorGenerator(QuestionGenerator):
    """p(q): a language model of the questions, with a learned h_0 for all pairs.

    Args:
        num_answer_words: Ignored; accepted because every generator is built with it.
        feature_sizes: Ignored, likewise.
        **decoder: Arguments of `QuestionGenerator`.
    """

    version: ClassVar[int] = 1

    start: Tensor

    def __init__(
        self,
        *,
        num_answer_words: int | None = None,
        feature_sizes: Mapping[str, int] | None = None,
        **decoder: Any,
    ) -> None:
        super().__init__(**decoder)
        self.start = nn.Parameter(torch.zeros(self.decoder.hidden_size))

    @override
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        # Copied rather than expanded: cuDNN's LSTM needs a contiguous h_0.
        return Conditions(self.start.repeat(len(answer), 1))
