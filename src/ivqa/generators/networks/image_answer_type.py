"""Baseline I + AT: questions from the image and the type of the answer (iVQA, section 4)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ANSWER_TYPES, ImageBatch
from ivqa.data.vqa_json import answer_type_of
from ivqa.generators.networks.image_encoder import ImageEncoder
from ivqa.generators.networks.network import Conditions, QuestionGenerator
from ivqa.text.vocabulary import SPECIALS, Tokens, Vocabulary


class ImageAnswerTypeGenerator(QuestionGenerator):
    """p(q | I, t): h_0 = W_I f_I + W_t t, where t is one-hot: yes/no, number or other.

    The type of an answer is that of its one word; longer answers are "other", as in VQA.

    Args:
        feature_sizes: Last dimension of each global image feature that forms f_I.
        answer_words: The words of the answers.
        num_answer_words: Ignored; accepted because every generator is built with it.
        **decoder: Arguments of `QuestionGenerator`.
    """

    version: ClassVar[int] = 1

    _type_of_word: Tensor  # (A,) int64

    def __init__(
        self,
        *,
        feature_sizes: Mapping[str, int],
        answer_words: Vocabulary,
        num_answer_words: int | None = None,
        **decoder: Any,
    ) -> None:
        super().__init__(**decoder)
        self.decoder_image = ImageEncoder(
            feature_sizes=feature_sizes, size=self.decoder.hidden_size
        )
        self.decoder_type = nn.Linear(len(ANSWER_TYPES), self.decoder.hidden_size, bias=False)
        words = (*SPECIALS, *answer_words.words)
        types = [ANSWER_TYPES.index(answer_type_of(word)) for word in words]
        self.register_buffer("_type_of_word", torch.tensor(types), persistent=False)

    @override
    def conditions(self, images: ImageBatch, answer: Tokens) -> Conditions:
        return Conditions(self.decoder_image(images) + self.decoder_type(self.types(answer)))

    def types(self, answer: Tokens) -> Tensor:
        """The types of answers.

        Args:
            answer: (P, T) words of the answers.

        Returns:
            (P, 3) float32, one-hot in the order of `ANSWER_TYPES`.
        """
        other = ANSWER_TYPES.index("other")
        if answer.ids.shape[1]:
            first = self._type_of_word[answer.ids[:, 0]]
            kind = torch.where(answer.lengths == 1, first, other)
        else:
            kind = torch.full_like(answer.lengths, other)
        return nn.functional.one_hot(kind, len(ANSWER_TYPES)).float()
