"""The LightningModule that trains every network of the zoo and answers questions with it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from typing_extensions import override

from ivqa.data.batches.batch import ANSWER_TYPES, ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.metrics.vqa_accuracy import VQAAccuracy
from ivqa.ranges import Count
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.tokens import tokenise
from ivqa.text.vocabulary import Vocabulary
from ivqa.trained import TrainedModule, evaluation_mode, network_settings
from ivqa.vqa.losses import Targets, answer_losses
from ivqa.vqa.network import VQANetwork
from ivqa.vqa.networks.question_encoder import QuestionEncoder

_SHOWN_ROWS = 10  # of those with a loss that is not finite, in the error message


class VQAModule(TrainedModule):
    """A network that answers from a closed set; implements `Answerer`.

    Args:
        network: Called with num_words, num_answers and feature_sizes.
        question_vocabulary: Words that questions are encoded with.
        answers: The closed set A.
        feature_sizes: Size of each image feature that the network reads.
        targets: What is learned from the annotators' answers, see `answer_losses`: "main", their
            mode; "annotators", their distribution over A; "accuracies", the official accuracy of
            each answer.
        max_question_length: Number of words of a question that are read; the rest is cut.
        optimisation: optimizer, scheduler and image_encoder, see `TrainedModule`.

    Raises:
        UserError: `targets` is unknown.
    """

    version: ClassVar[int] = 1

    def __init__(
        self,
        *,
        network: Callable[..., VQANetwork],
        question_vocabulary: Vocabulary,
        answers: AnswerVocabulary,
        feature_sizes: Mapping[str, int],
        targets: Targets = "main",
        max_question_length: Count = 26,
        **optimisation: Any,
    ) -> None:
        super().__init__(**optimisation)
        if targets not in (known := get_args(Targets)):
            raise UserError(f"targets must be one of {', '.join(known)}, not {targets}")
        self.question_vocabulary = question_vocabulary
        self.answers = answers
        self.feature_sizes = {str(name): int(size) for name, size in feature_sizes.items()}
        self.network = network(
            num_words=len(question_vocabulary),
            num_answers=len(answers),
            feature_sizes=self.feature_sizes,
        )
        self.targets = targets
        self.max_question_length = max_question_length
        self.accuracy = VQAAccuracy()
        self._network_settings = network_settings(network)

    @property
    def learns_counts(self) -> bool:
        """Whether training batches must carry `answer_counts`."""
        return self.targets == "annotators"

    @torch.no_grad()
    def log_scores(
        self, images: ImageBatch, questions: Sequence[str], answers: list[str] | None = None
    ) -> Tensor:
        """Computes log phi(a | I, q); see `Answerer.log_scores`.

        phi is the softmax over all of A for each kind of `targets`. The network is in evaluation
        mode, without dropout.

        Raises:
            ValueError: Images and questions differ in number.
            UserError: An answer is not in A.
        """
        if len(images) != len(questions):
            raise ValueError(
                f"{len(questions)} questions for {len(images)} images; give one question an image"
            )
        chosen = None if answers is None else self._columns(answers)
        with evaluation_mode(self.network, self.image_encoder):
            tokens = self.question_vocabulary.encode(questions, self.max_question_length)
            seen = images.to(self.device).encoded(self.image_encoder)
            logits = self.network(seen, tokens.to(self.device))
            scores = logits.float().log_softmax(dim=1)
        return scores if chosen is None else scores[:, chosen]

    @torch.no_grad()
    def attention(self, images: ImageBatch, questions: list[str]) -> Tensor | None:
        """The mean of the attention maps of the network; see `Attends`."""
        with evaluation_mode(self.network, self.image_encoder):
            tokens = self.question_vocabulary.encode(questions, self.max_question_length)
            seen = images.to(self.device).encoded(self.image_encoder)
            maps = self.network.attention_maps(seen, tokens.to(self.device))
        return None if maps is None else maps.mean(dim=1)

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        """Returns the most probable answer to each question; see `Answerer.answer`."""
        best = self.log_scores(images, questions).argmax(dim=1)
        return [self.answers.answers[index] for index in best.tolist()]

    def is_cut(self, questions: Sequence[str]) -> list[bool]:
        """Checks for each question whether it has more words than `max_question_length`."""
        return [len(tokenise(text)) > self.max_question_length for text in questions]

    def _columns(self, answers: list[str]) -> Tensor:
        chosen = self.answers.encode(answers)
        if (chosen < 0).any():
            unknown = answers[int((chosen < 0).nonzero()[0])]
            raise UserError(
                f"answer '{unknown}' is not among the {len(self.answers)} answers of this model; "
                "ask for answers of its vocabulary"
            )
        return chosen.to(self.device)

    @override
    def setup(self, stage: str) -> None:
        for part in self.network.modules() if stage == "fit" else ():
            if isinstance(part, QuestionEncoder):
                part.initialise(self.question_vocabulary.words)

    @override
    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        """Computes and logs the loss of a batch.

        Raises:
            UserError: The loss is not finite; the message has the rows of the training split.
        """
        output = self.network.train_forward(batch.encoded(self.image_encoder))
        logits = output.logits.float()
        losses = answer_losses(logits, batch, self.targets)
        terms = {"answer": losses.mean(), **output.further(losses)}
        loss = torch.stack(list(terms.values())).sum()
        if not torch.isfinite(loss):
            rows = batch.rows[~torch.isfinite(losses)][:_SHOWN_ROWS].tolist()
            raise UserError(
                f"the training loss is not finite at step {self.global_step}, for rows {rows} of "
                "the training split; check the features or lower the learning rate"
            )
        shown = {"loss": loss, **(terms if len(terms) > 1 else {})}
        self.log_dict(
            {f"train/{name}": value.detach() for name, value in shown.items()},
            batch_size=len(batch),
        )
        return loss

    @override
    def validation_step(self, batch: VQABatch, batch_idx: int) -> None:
        assert batch.soft_targets is not None
        images = batch.images.encoded(self.image_encoder)
        best = self.network(images, batch.question).argmax(dim=1, keepdim=True)
        accuracies, types = batch.soft_targets.gather(1, best)[:, 0], batch.answer_type
        if batch.counted is not None:
            accuracies, types = accuracies[batch.counted], types[batch.counted]
        self.accuracy.update(accuracies, types)

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """Returns the names that validation logs."""
        return {"val/vqa_accuracy"} | {f"val/{kind.replace('/', '_')}" for kind in ANSWER_TYPES}

    @override
    def on_validation_epoch_end(self) -> None:
        self.log_dict({f"val/{name}": value for name, value in self.accuracy.compute().items()})
        self.accuracy.reset()

    @override
    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clips gradients as Lightning does, and also with fused optimisers in bfloat16.

        Lightning refuses to clip for fused optimisers under mixed precision because gradients may
        be scaled; in bfloat16 they are not.
        """
        if gradient_clip_val and self.trainer.precision == "bf16-mixed":
            if gradient_clip_algorithm == "value":
                nn.utils.clip_grad_value_(self.parameters(), gradient_clip_val)
            else:
                nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)
        else:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    @override
    def component(self) -> dict[str, Any]:
        return {
            "question_words": list(self.question_vocabulary.words),
            "answers": list(self.answers.answers),
            "feature_sizes": dict(self.feature_sizes),
            "network": self._network_settings,
        }
