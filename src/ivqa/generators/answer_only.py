"""Baseline A: questions from the answer alone (iVQA, section 4)."""

from collections.abc import Mapping

from torch import nn

from ivqa.data.batch import ImageBatch
from ivqa.generators.answer_encoder import AnswerEncoder
from ivqa.generators.decoder import QuestionDecoder
from ivqa.generators.network import Conditions, QuestionGenerator
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens


class AnswerOnlyGenerator(QuestionGenerator):
    """p(q | a): h_0 = W_a a with a the LSTM encoding of the answer (512 in the paper).

    feature_sizes is taken, as every generator's factory passes it, and not used.
    """

    def __init__(
        self,
        *,
        num_words: int,
        num_answer_words: int,
        feature_sizes: Mapping[str, int] | None = None,
        embedding_size: Count = 512,
        hidden_size: Count = 512,
        answer_size: Count = 512,
        word_dropout: ShareBelowOne = 0.0,
        dropout: ShareBelowOne = 0.5,
        feed_condition: bool = False,
    ) -> None:
        super().__init__(
            QuestionDecoder(
                num_words=num_words,
                embedding_size=embedding_size,
                hidden_size=hidden_size,
                word_dropout=word_dropout,
                dropout=dropout,
                feed_condition=feed_condition,
            )
        )
        self.answer_encoder = AnswerEncoder(
            num_words=num_answer_words,
            embedding_size=embedding_size,
            size=answer_size,
            dropout=dropout,
        )
        self.decoder_answer = nn.Linear(answer_size, hidden_size)

    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """W_a a; the images are not looked at."""
        return Conditions(self.decoder_answer(self.answer_encoder(answer)))
