"""The legality model p(legal | q): tells questions that people ask from nonsense [iVQA 5]."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypedDict, Unpack

import torch
from torch import Tensor
from torch.nn import functional as F
from torchmetrics.classification import BinaryAUROC
from typing_extensions import override

from ivqa.data.batches.batch import VQABatch
from ivqa.device import rows_of_pass
from ivqa.diagnosis.beliefs.perturbation import KINDS, fingerprints, perturb
from ivqa.diagnosis.legality.cnn import LegalityCNN
from ivqa.errors import UserError
from ivqa.generators import GeneratorModule, Sampling
from ivqa.generators.decoding.strategies import concatenate_tokens
from ivqa.ranges import PositiveShare, ShareBelowOne, Temperatures
from ivqa.text.vocabulary import Tokens, Vocabulary
from ivqa.trained import (
    OptimizerFactory,
    SchedulerFactory,
    TrainedModule,
    evaluation_mode,
    network_settings,
)

_TEXTS_PER_PASS = 4096  # bounds the memory of `probabilities`


class TrainingArguments(TypedDict, total=False):
    """The arguments of `TrainedModule`; see there."""

    optimizer: OptimizerFactory | None
    scheduler: SchedulerFactory | None


class LegalityModule(TrainedModule):
    """Trains a classifier of real questions against damaged and generated ones.

    The negatives of a batch are as many as its real questions: `own_share` of them are samples of
    the question generator, `spliced_share` join the beginning of one real question to the end of
    another, and the others are real questions damaged in one of the other ways of
    `perturbation.KINDS`. A negative that is a question of the training split is left out.

    Args:
        network: Called with num_words; returns the network.
        question_vocabulary: Words of the questions.
        questioner: The generator whose samples are negatives; it is not trained. Without one,
            `own_share` is 0.
        own_share: Share of the negatives that the generator samples, in [0, 1).
        temperatures: Sampling temperatures of these negatives, one drawn for each step. At 1 they
            look like the samples that a policy starts from; at higher ones they are worse.
        spliced_share: Share of the negatives that are spliced, in [0, 1 - own_share].
        kept: Share of held-out real questions above the calibrated `limit`, in (0, 1].
        training: `optimizer` and `scheduler` of `TrainedModule`.

    Raises:
        UserError: A share or a temperature is out of its range.
    """

    version: ClassVar[int] = 1

    threshold: Tensor

    def __init__(
        self,
        *,
        network: Callable[..., LegalityCNN],
        question_vocabulary: Vocabulary,
        questioner: GeneratorModule | None = None,
        own_share: ShareBelowOne = 0.5,
        temperatures: Temperatures = (1.0, 1.25, 1.5),
        spliced_share: ShareBelowOne = 0.3,
        kept: PositiveShare = 0.95,
        **training: Unpack[TrainingArguments],
    ) -> None:
        super().__init__(**training)
        if not 0 <= own_share < 1:
            raise UserError(f"own_share must be in [0, 1), not {own_share}")
        if not 0 <= spliced_share <= 1 - own_share:
            raise UserError(
                f"spliced_share must be between 0 and 1 - own_share ({1 - own_share:g}), not "
                f"{spliced_share}"
            )
        if not temperatures or min(temperatures) <= 0:
            raise UserError(f"temperatures must be above 0, not {list(temperatures)}")
        self.question_vocabulary = question_vocabulary
        self.network = network(num_words=len(question_vocabulary))
        self.own_share = own_share if questioner is not None else 0.0
        self.temperatures = tuple(float(value) for value in temperatures)
        self.spliced_share = spliced_share
        self.kept = kept
        self.auroc = BinaryAUROC(thresholds=None)
        # In a tuple, so that PyTorch does not store it with this module.
        self._frozen = (questioner,)
        self._real_scores: list[Tensor] = []  # p(legal) of the validation batches
        self._training_questions: Tensor | None = None  # fingerprints, (unique questions,)
        self._network_settings = network_settings(network)
        self.register_buffer("threshold", torch.tensor(0.5))

    @property
    def limit(self) -> float:
        """The calibrated threshold: `kept` of the held-out real questions are above it."""
        return float(self.threshold)

    def probabilities(self, questions: Sequence[str]) -> Tensor:
        """Computes p(legal) of texts, without dropout; see `LegalityJudge`."""
        return text_probabilities(self.network, self.question_vocabulary, questions)

    @override
    def on_fit_start(self) -> None:
        """Stores fingerprints of the training questions and moves the generator to this device."""
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        questions = datamodule.encoded("train").question
        self._training_questions = fingerprints(questions).unique().to(self.device)
        if self._frozen[0] is not None:
            self._frozen[0].to(self.device)

    @override
    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        """Computes the cross-entropy of real questions and as many negatives."""
        real = batch.question
        fake = self._negatives(batch)
        assert self._training_questions is not None
        nonsense = ~torch.isin(fingerprints(fake), self._training_questions)
        fake = fake.select(nonsense.nonzero()[:, 0])
        positive, negative = self.network(real), self.network(fake)
        # Cross-entropy with logits x: softplus(-x) of positives, softplus(x) of negatives.
        # All negatives may be training questions, and mean() of none would be nan.
        loss = 0.5 * (F.softplus(-positive).mean() + F.softplus(negative).sum() / max(len(fake), 1))
        self.log("train/loss", loss.detach(), batch_size=len(batch))
        return loss

    @override
    def validation_step(self, batch: VQABatch, batch_idx: int) -> None:
        """Scores real questions and one damaged copy of each."""
        real = batch.question
        generator = torch.Generator().manual_seed(batch_idx)  # the same copies every time
        kinds = torch.randint(len(KINDS), (len(real),), generator=generator).to(real.ids.device)
        fake = perturb(real, len(self.question_vocabulary), kinds, generator)
        # Damage may change nothing, for example a swap of two equal words.
        differs = fingerprints(fake) != fingerprints(real)
        fake = fake.select(differs.nonzero()[:, 0])
        positive, negative = self.network(real).sigmoid(), self.network(fake).sigmoid()
        self.auroc.update(positive, torch.ones_like(positive, dtype=torch.int64))
        self.auroc.update(negative, torch.zeros_like(negative, dtype=torch.int64))
        self._real_scores.append(positive)

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """Names of the metrics that validation logs."""
        return {"val/auroc", "val/kept"}

    @override
    def on_validation_epoch_end(self) -> None:
        """Logs the area under the ROC curve; calibrates the threshold during training."""
        scores = torch.cat(self._real_scores)
        self._real_scores.clear()
        # A separate validation must not change the trained threshold.
        if self.trainer.training or self.trainer.state.fn == "fit":
            self.threshold.fill_(float(scores.float().quantile(1 - self.kept)))
        self.log("val/auroc", self.auroc.compute())
        self.log("val/kept", (scores > self.threshold).float().mean())
        self.auroc.reset()

    @override
    def component(self) -> dict[str, Any]:
        return {
            "question_words": list(self.question_vocabulary.words),
            "feature_sizes": {},
            "network": self._network_settings,
        }

    def _negatives(self, batch: VQABatch) -> Tokens:
        """As many negatives as the batch has questions, ids (B, T')."""
        real, (questioner,) = batch.question, self._frozen
        # The first `number` questions give way to samples, the others are damaged.
        number = int(self.own_share * len(real))
        damaged = self._damaged(real.select(torch.arange(number, len(real), device=self.device)))
        if questioner is None or number == 0:
            return damaged
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        answers = datamodule.dataset.split("train").main_answers
        rows = torch.arange(number, device=real.ids.device)
        chosen = int(torch.randint(len(self.temperatures), ()))
        sampled = questioner.sample(
            batch.images.select(rows),
            [answers[row] for row in batch.rows[:number].tolist()],
            1,
            Sampling(temperature=self.temperatures[chosen]),
        )
        own = self.question_vocabulary.encode(sampled.text).to(real.ids.device)
        return concatenate_tokens([own, damaged])

    def _damaged(self, real: Tokens) -> Tokens:
        """Real questions (B, T), each damaged in one way drawn at random."""
        splice = KINDS.index("splice")  # the last kind: randint below leaves it out
        share = self.spliced_share / (1 - self.own_share)  # of these questions, not of all
        kinds = torch.randint(splice, (len(real),), device=real.ids.device)
        kinds[torch.rand(len(real), device=real.ids.device) < share] = splice
        return perturb(real, len(self.question_vocabulary), kinds)


@torch.no_grad()
def text_probabilities(
    network: LegalityCNN, vocabulary: Vocabulary, questions: Sequence[str]
) -> Tensor:
    """p(legal) of N texts, (N,) float32 in [0, 1], without dropout."""
    if not questions:
        return torch.zeros(0)
    tokens = vocabulary.encode(questions).to(network.output.weight.device)
    with evaluation_mode(network):
        device = tokens.ids.device
        at_once = rows_of_pass(_TEXTS_PER_PASS, device)
        rows = torch.arange(len(questions), device=device).split(at_once)
        parts = [network(tokens.select(some)).float().sigmoid() for some in rows]
    return torch.cat(parts)
