"""Training of a transformers model as a question generator."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import nn

from ivqa.generators.module import QuestionGenerationModule
from ivqa.generators.transformer import TransformerGenerator
from ivqa.text.vocabulary import Vocabulary


class TransformerModule(QuestionGenerationModule):
    """Maximises log p(q | I, a) of a `TransformerGenerator`; a `Questioner`.

    Its tokens, in `Questions.tokens` and as `question_vocabulary`, are those of the model.

    Args:
        network: `TransformerGenerator` or a partial of it.
        question_vocabulary: Words of the questions in batches.
        answer_words: Words of the answers in batches.
        feature_sizes: Not used: the model reads pixels.
        **options: See `QuestionGenerationModule`; max_length is a number of tokens.
    """

    network: TransformerGenerator

    reads_pixels = True
    """It reads images, although it needs no image features."""

    def __init__(
        self,
        *,
        network: Callable[..., TransformerGenerator],
        question_vocabulary: Vocabulary,
        answer_words: Vocabulary,
        feature_sizes: Mapping[str, int],
        **options: Any,
    ) -> None:
        super().__init__(
            network=network,
            question_vocabulary=question_vocabulary,
            answer_words=answer_words,
            feature_sizes=feature_sizes,
            **options,
        )
        self.question_vocabulary = self.network.questions
        self.answer_words = self.network.answers

    def trained_parameters(self) -> Iterable[nn.Parameter]:
        """Returns the adapters, or all weights without LoRA."""
        return [value for value in self.parameters() if value.requires_grad]

    def component(self) -> dict[str, Any]:
        """Returns the words of the batches and the network's settings, for a checkpoint."""
        return {
            **super().component(),
            "question_words": list(self.network.question_words.words),
            "answer_words": list(self.network.answer_words.words),
        }
