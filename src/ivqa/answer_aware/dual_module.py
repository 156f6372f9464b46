"""A question generator that learns to answer too, and so can tell which questions an answer fits.

Asking and answering are dual tasks (Li et al., "Visual question generation as dual task of visual
question answering", CVPR 2018). Here each task has a network of its own, and one training on the
same questions teaches both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from typing_extensions import override

from ivqa.data.batches.batch import PixelEncoder, VQABatch
from ivqa.errors import UserError
from ivqa.generators import GeneratorModule
from ivqa.ranges import Count, NonNegative, Positive
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa import VQAModule, VQANetwork

_OTHER_ANSWER = -1  # target of a question whose answer is outside of the closed set
_SHOWN_ROWS = 10  # of those with a loss that is not finite, in the error message


class DualModule(GeneratorModule):
    """Maximises the ELBO of a generator, and log phi(a | I, q) of a VQA model of its own.

    It samples and scores questions as the generator alone does. A benchmark with `decoding` weights
    them by the VQA model.

    Args:
        answers: The closed set A of phi. Questions with other answers train the generator alone.
        answer_network: The network of phi; called with num_words, num_answers and feature_sizes.
        answer_features: The image features that it reads.
        answer_loss_weight: Weight of -log phi(a | I, q) beside the negative ELBO.
        answer_learning_rate_scale: Learning rate of the VQA model over that of the generator.
        max_question_length: Words of a question that the VQA model reads; the rest is cut.
        **options: Arguments of `GeneratorModule`. The VQA model reads the same words, and
            feature_sizes has the image features of both networks.
    """

    version: ClassVar[int] = 1

    learns_other_answers = True
    """Whether training keeps the questions whose answers are outside of the closed set."""

    def __init__(
        self,
        *,
        answers: AnswerVocabulary,
        answer_network: Callable[..., VQANetwork],
        answer_features: Sequence[str],
        answer_loss_weight: NonNegative = 1.0,
        answer_learning_rate_scale: Positive = 1.0,
        max_question_length: Count = 26,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.answers = answers
        self.answer_loss_weight = answer_loss_weight
        self.answer_learning_rate_scale = answer_learning_rate_scale
        self.answerer = VQAModule(
            network=answer_network,
            question_vocabulary=self.question_vocabulary,
            answers=answers,
            feature_sizes={name: self.feature_sizes[name] for name in answer_features},
            max_question_length=max_question_length,
            image_encoder=self.image_encoder,
        )

    @override
    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        batch = _EncodedBatch.of(batch, self.image_encoder)
        loss = super().training_step(batch, batch_idx)
        output = self.answerer.network.train_forward(batch)
        losses = F.cross_entropy(
            output.logits.float(), batch.target, ignore_index=_OTHER_ANSWER, reduction="none"
        )
        answer_loss = losses.sum() / (batch.target != _OTHER_ANSWER).sum().clamp_min(1)
        if not torch.isfinite(answer_loss):
            rows = batch.rows[~torch.isfinite(losses)][:_SHOWN_ROWS].tolist()
            raise UserError(
                f"the loss of the VQA model is not finite at step {self.global_step}, for rows "
                f"{rows} of the training split; check the features or lower the learning rate"
            )
        terms = {"answer": answer_loss, **output.further(losses)}
        self.log_dict(
            {f"train/{name}": value.detach() for name, value in terms.items()},
            batch_size=len(batch),
        )
        return loss + self.answer_loss_weight * torch.stack(list(terms.values())).sum()

    @override
    def validation_step(self, batch: VQABatch, batch_idx: int) -> None:
        batch = _EncodedBatch.of(batch, self.image_encoder)
        super().validation_step(batch, batch_idx)
        self.answerer.validation_step(batch, batch_idx)

    @staticmethod
    @override
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        own = GeneratorModule.validation_metrics(arguments)
        return own | VQAModule.validation_metrics({})

    @override
    def on_validation_epoch_end(self) -> None:
        super().on_validation_epoch_end()
        accuracy = self.answerer.accuracy
        self.log_dict({f"val/{name}": value for name, value in accuracy.compute().items()})
        accuracy.reset()

    @override
    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips the gradients of each network by itself, as if each were trained alone.

        A common norm would scale down the gradients of the VQA model, which are far smaller than
        those of the generator.
        """
        answering = {id(value) for value in self.answerer.network.parameters()}
        asking = [value for value in self.parameters() if id(value) not in answering]
        for parameters in (asking, list(self.answerer.network.parameters())):
            if gradient_clip_val and gradient_clip_algorithm == "value":
                nn.utils.clip_grad_value_(parameters, gradient_clip_val)
            elif gradient_clip_val:
                nn.utils.clip_grad_norm_(parameters, gradient_clip_val)

    @override
    def _own_rates(self) -> list[tuple[nn.Module, float]]:
        own = (self.answerer.network, self.answer_learning_rate_scale)
        return [*super()._own_rates(), own]

    @override
    def component(self) -> dict[str, Any]:
        answerer = self.answerer.component()
        return super().component() | {
            "answers": answerer["answers"],
            "answer_network": answerer["network"],
        }


@dataclass(frozen=True)
class _EncodedBatch(VQABatch):
    """A batch whose image features are computed, so that they are computed once for both losses."""

    @classmethod
    def of(cls, batch: VQABatch, encoder: PixelEncoder | None) -> Self:
        return cls(**vars(batch.encoded(encoder)))

    def encoded(self, encoder: PixelEncoder | None) -> Self:
        return self
