"""Baseline I: visual question generation, from the image alone (iVQA, section 4)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators.networks.image_encoder import ImageEncoder
from ivqa.generators.networks.network import Conditions, QuestionGenerator
from ivqa.text.vocabulary import Tokens


class ImageOnlyGenerator(QuestionGenerator):
    """p(q | I): h_0 = W_I f_I (f_I is res5c of ResNet-152 in the paper).

    Args:
        feature_sizes: Last dimension of each global image feature that forms f_I.
        num_answer_words: Ignored; accepted because every generator is built with the same
            arguments.
        **decoder: Arguments of `QuestionGenerator`.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        feature_sizes: Mapping[str, int],
        num_answer_words: int | None = None,
        **decoder: Any,
    ) -> None:
        super().__init__(**decoder)
        self.decoder_image = ImageEncoder(
            feature_sizes=feature_sizes, size=self.decoder.hidden_size
        )

    @override
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        """Computes W_I f_I of P pairs; see `QuestionGenerator.conditions`. Answers are ignored."""
        return Conditions(self.decoder_image(images))
