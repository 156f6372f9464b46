"""Training by the evidence lower bound and a contrast of answers."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from ivqa.data.batch import VQABatch
from ivqa.generators.module import QuestionGenerationModule
from ivqa.generators.network import GeneratorOutput, QuestionGenerator
from ivqa.generators.objective import answer_contrast, other_answers
from ivqa.ranges import NonNegative
from ivqa.text.vocabulary import Vocabulary


class ContrastiveGenerationModule(QuestionGenerationModule):
    """Adds `answer_contrast` to the loss: a question is less probable with another answer.

    The other answer is that of another question of the batch, of the same type.

    Args:
        network: See `NetworkQuestioner`, as the next three.
        question_vocabulary: Words of the questions.
        answer_words: Words of the answers.
        feature_sizes: Last dimension of each image feature that the network reads.
        contrast_weight: Weight of the term.
        **module: Other arguments of `QuestionGenerationModule`.
    """

    def __init__(
        self,
        *,
        network: Callable[..., QuestionGenerator],
        question_vocabulary: Vocabulary,
        answer_words: Vocabulary,
        feature_sizes: Mapping[str, int],
        contrast_weight: NonNegative = 1.0,
        **module: Any,
    ) -> None:
        super().__init__(
            network=network,
            question_vocabulary=question_vocabulary,
            answer_words=answer_words,
            feature_sizes=feature_sizes,
            **module,
        )
        self.contrast_weight = contrast_weight

    def additional_loss(self, batch: VQABatch, output: GeneratorOutput) -> Tensor:
        """Computes the weighted contrast; see `QuestionGenerationModule.additional_loss`."""
        other = other_answers(batch.answer_type, batch.answer.ids)
        given = self.network.conditions(batch.images, batch.answer.select(other))
        wrong = self.network.token_log_probs(batch.question, output.z, given).sum(dim=1)
        differs = (batch.answer.ids[other] != batch.answer.ids).any(dim=1)
        contrast = answer_contrast(output.log_likelihood, wrong, differs)
        self.log("train/contrast", contrast.detach(), batch_size=len(batch))
        return self.contrast_weight * contrast
