"""Baseline I: visual question generation, from the image alone (iVQA, section 4)."""

from collections.abc import Mapping

from ivqa.data.batch import ImageBatch
from ivqa.generators.decoder import QuestionDecoder
from ivqa.generators.image_encoder import ImageEncoder
from ivqa.generators.network import Conditions, QuestionGenerator
from ivqa.ranges import Count, ShareBelowOne
from ivqa.text.vocabulary import Tokens


class ImageOnlyGenerator(QuestionGenerator):
    """p(q | I): h_0 = W_I f_I (res5c of ResNet-152 in the paper).

    num_answer_words is taken, as every generator's factory passes it, and not used.
    """

    def __init__(
        self,
        *,
        num_words: int,
        feature_sizes: Mapping[str, int],
        num_answer_words: int | None = None,
        embedding_size: Count = 512,
        hidden_size: Count = 512,
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
        self.decoder_image = ImageEncoder(feature_sizes=feature_sizes, size=hidden_size)

    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """W_I f_I; the answers are not looked at."""
        return Conditions(self.decoder_image(images))
