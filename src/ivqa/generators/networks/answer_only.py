"""Baseline A: questions from the answer alone (iVQA, section 4)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators.networks.answer_encoder import AnswerEncoder
from ivqa.generators.networks.network import Conditions, QuestionGenerator
from ivqa.ranges import Count
from ivqa.text.vocabulary import Tokens


class AnswerOnlyGenerator(QuestionGenerator):
    """p(q | a): h_0 = W_a a, where a is the LSTM encoding of the answer.

    Args:
        num_answer_words: Size of the answer vocabulary with its special tokens.
        feature_sizes: Ignored; accepted because every generator is built with the same arguments.
        answer_size: d_a, dimensions of a; 512 in the paper.
        **decoder: Arguments of `QuestionGenerator`.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        num_answer_words: int,
        feature_sizes: Mapping[str, int] | None = None,
        answer_size: Count = 512,
        **decoder: Any,
    ) -> None:
        super().__init__(**decoder)
        self.answer_encoder = AnswerEncoder(
            num_words=num_answer_words,
            embedding_size=self.decoder.embedding_size,
            size=answer_size,
            dropout=self.decoder.dropout.probability,
        )
        self.decoder_answer = nn.Linear(answer_size, self.decoder.hidden_size)

    @override
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """Computes W_a a of P pairs; see `QuestionGenerator.conditions`. Images are ignored."""
        return Conditions(self.decoder_answer(self.answer_encoder(answer)))
