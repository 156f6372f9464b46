"""Baselines: questions from nothing, the image, the answer, or image and answer type [iVQA 4]."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ANSWER_TYPES, ImageBatch
from ivqa.data.vqa_json import answer_type_of
from ivqa.generators.networks.answer_encoder import AnswerEncoder
from ivqa.generators.networks.image_encoder import ImageEncoder
from ivqa.generators.networks.network import Conditions, QuestionGenerator
from ivqa.ranges import Count
from ivqa.text.vocabulary import SPECIALS, Tokens, Vocabulary


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


class ImageOnlyGenerator(QuestionGenerator):
    """p(q | I): h_0 = W_I f_I (f_I is res5c of ResNet-152 in the paper).

    Args:
        feature_sizes: Last dimension of each global image feature that forms f_I.
        num_answer_words: Ignored; accepted because every generator is built with it.
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
        return Conditions(self.decoder_image(images))


class AnswerOnlyGenerator(QuestionGenerator):
    """p(q | a): h_0 = W_a a, where a is the LSTM encoding of the answer.

    Args:
        num_answer_words: Size of the answer vocabulary with its special tokens.
        feature_sizes: Ignored; likewise.
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
        return Conditions(self.decoder_answer(self.answer_encoder(answer)))


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
        """The types of P answers, (P, 3) float32, one-hot in the order of `ANSWER_TYPES`."""
        other = ANSWER_TYPES.index("other")
        if answer.ids.shape[1]:
            first = self._type_of_word[answer.ids[:, 0]]
            kind = torch.where(answer.lengths == 1, first, other)
        else:
            kind = torch.full_like(answer.lengths, other)
        return nn.functional.one_hot(kind, len(ANSWER_TYPES)).float()
