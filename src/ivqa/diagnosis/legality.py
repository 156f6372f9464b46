"""The legality model p(legal | q): the text CNN that discriminates in SeqGAN [iVQA 5]."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics.classification import BinaryAUROC

from ivqa.data.batch import VQABatch
from ivqa.diagnosis.perturbation import KINDS, fingerprints, perturb
from ivqa.errors import UserError
from ivqa.generators import QuestionGenerationModule, Sampling
from ivqa.generators.decoding import concatenate_tokens
from ivqa.ranges import Count, Counts, PositiveShare, ShareBelowOne, Temperatures
from ivqa.text.vocabulary import PAD, Tokens, Vocabulary
from ivqa.trained import OptimizerFactory, SchedulerFactory, TrainedModule, network_settings

_JUDGED_AT_ONCE = 4096


class LegalityCNN(nn.Module):
    """Convolutions of several widths, max over time, a highway layer, one logit.

    widths, maps: words that a filter sees and how many filters; the defaults are those of the
    published code (1,720 maps). max_length: words that are read; shorter texts are padded.
    """

    def __init__(
        self,
        *,
        num_words: int,
        embedding_size: Count = 64,
        widths: Counts = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20),
        maps: Counts = (100, 200, 200, 200, 200, 100, 100, 100, 100, 100, 160, 160),
        max_length: Count = 20,
        dropout: ShareBelowOne = 0.25,
    ) -> None:
        super().__init__()
        self.check_arguments({"widths": widths, "maps": maps, "max_length": max_length})
        self.max_length = max_length
        self.embedding = nn.Embedding(num_words, embedding_size)
        self.filters = nn.ModuleList(
            nn.Conv1d(embedding_size, number, width)
            for width, number in zip(widths, maps, strict=True)
        )
        total = sum(maps)
        self.gate, self.carry = nn.Linear(total, total), nn.Linear(total, total)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(total, 1)

    @staticmethod
    def check_arguments(arguments: Mapping[str, Any]) -> None:
        """Raises UserError where filters do not fit; before a command starts, too."""
        widths, maps = arguments["widths"], arguments["maps"]
        if len(widths) != len(maps):
            raise UserError(f"{len(widths)} filter widths, but {len(maps)} numbers of maps")
        if max(widths) > arguments["max_length"]:
            raise UserError(
                f"a filter of {max(widths)} words does not fit in {arguments['max_length']}"
            )

    def forward(self, questions: Tokens) -> Tensor:
        """Logits (B,) of being a question that people ask."""
        ids = questions.ids[:, : self.max_length]
        ids = F.pad(ids, (0, self.max_length - ids.shape[1]), value=PAD)
        embedded = self.embedding(ids).transpose(1, 2)  # (B, d_e, T)
        found = torch.cat([layer(embedded).relu().amax(dim=2) for layer in self.filters], dim=1)
        open_ = self.gate(found).sigmoid()
        mixed = open_ * self.carry(found).relu() + (1 - open_) * found
        return self.output(self.dropout(mixed))[:, 0]


class LegalityModule(TrainedModule):
    """Learns to tell real questions from damaged ones and from nonsense of the generator.

    network: called with num_words. questioner: whose samples are `own_share` of the negatives, each
    step at one of `temperatures`: at 1 they are what a policy starts from, higher ones are worse.
    spliced_share: of the negatives, the beginning of one real question and the end of another; the
    rest are real questions damaged in the other ways of `perturbation.KINDS`.
    Negatives that are real questions of the training split are left out.
    kept: share of held-out real questions that the calibrated `limit` must let pass.
    """

    threshold: Tensor
    known: Tensor

    def __init__(
        self,
        *,
        network: Callable[..., LegalityCNN],
        question_vocabulary: Vocabulary,
        questioner: QuestionGenerationModule | None = None,
        optimizer: OptimizerFactory | None = None,
        scheduler: SchedulerFactory | None = None,
        own_share: ShareBelowOne = 0.5,
        temperatures: Temperatures = (1.0, 1.25, 1.5),
        spliced_share: ShareBelowOne = 0.3,
        kept: PositiveShare = 0.95,
    ) -> None:
        super().__init__(optimizer, scheduler)
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
        self._frozen = (questioner,)  # in a tuple: not a part of this module's weights
        self._real: list[Tensor] = []
        self._known: Tensor | None = None
        self._network_settings = network_settings(network)
        self.register_buffer("threshold", torch.tensor(0.5))

    @property
    def limit(self) -> float:
        """The threshold that lets `kept` of the held-out real questions pass."""
        return float(self.threshold)

    @torch.no_grad()
    def probabilities(self, questions: Sequence[str]) -> Tensor:
        """p(legal) of N texts, (N,) float32."""
        training = self.network.training
        self.network.eval()
        try:
            tokens = self.question_vocabulary.encode(questions).to(self.device)
            rows = torch.arange(len(questions), device=self.device).split(_JUDGED_AT_ONCE)
            parts = [self.network(tokens.select(some)).float().sigmoid() for some in rows]
        finally:
            self.network.train(training)
        return torch.cat(parts) if parts else torch.zeros(0)

    def on_fit_start(self) -> None:
        """Remembers the real questions, and moves the generator to this device."""
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        self._known = fingerprints(datamodule.encoded("train").question).unique().to(self.device)
        if self._frozen[0] is not None:
            self._frozen[0].to(self.device)

    def training_step(self, batch: VQABatch, batch_idx: int) -> Tensor:
        """Cross entropy of as many negatives as positives."""
        real = batch.question
        fake = self._negatives(batch)
        assert self._known is not None
        kept = ~torch.isin(fingerprints(fake), self._known)
        fake = fake.select(kept.nonzero()[:, 0])
        positive, negative = self.network(real), self.network(fake)
        loss = 0.5 * (F.softplus(-positive).mean() + F.softplus(negative).sum() / max(len(fake), 1))
        self.log("train/loss", loss.detach(), batch_size=len(batch))
        return loss

    def validation_step(self, batch: VQABatch, batch_idx: int) -> None:
        """Scores real questions and one damaged copy of each; the same ones every time."""
        real = batch.question
        generator = torch.Generator().manual_seed(batch_idx)
        kinds = torch.randint(len(KINDS), (len(real),), generator=generator).to(real.ids.device)
        fake = perturb(real, len(self.question_vocabulary), kinds, generator)
        differs = fingerprints(fake) != fingerprints(real)
        fake = fake.select(differs.nonzero()[:, 0])
        positive, negative = self.network(real).sigmoid(), self.network(fake).sigmoid()
        self.auroc.update(positive, torch.ones_like(positive, dtype=torch.int64))
        self.auroc.update(negative, torch.zeros_like(negative, dtype=torch.int64))
        self._real.append(positive)

    @staticmethod
    def validation_metrics(arguments: Mapping[str, Any]) -> set[str]:
        """The names that validation logs, by the constructor's arguments in the configuration."""
        return {"val/auroc", "val/kept"}

    def on_validation_epoch_end(self) -> None:
        """Logs the area under the ROC curve, and calibrates the threshold in training."""
        scores = torch.cat(self._real)
        self._real.clear()
        if self.trainer.training or self.trainer.state.fn == "fit":
            self.threshold.fill_(float(scores.float().quantile(1 - self.kept)))
        self.log("val/auroc", self.auroc.compute())
        self.log("val/kept", (scores > self.threshold).float().mean())
        self.auroc.reset()

    def component(self) -> dict[str, Any]:
        """What a checkpoint says about itself, in plain containers."""
        return {
            "question_words": list(self.question_vocabulary.words),
            "feature_sizes": {},
            "network": self._network_settings,
        }

    def _negatives(self, batch: VQABatch) -> Tokens:
        """As many negatives as the batch has questions: (B, T')."""
        real, (questioner,) = batch.question, self._frozen
        number = int(self.own_share * len(real))
        damaged = self._damaged(real.select(torch.arange(number, len(real), device=self.device)))
        if questioner is None or number == 0:
            return damaged
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        answers = datamodule.dataset.split("train").main_answers
        rows = torch.arange(number, device=real.ids.device)
        chosen = int(torch.randint(len(self.temperatures), ()))
        asked = questioner.sample(
            batch.images.select(rows),
            [answers[row] for row in batch.rows[:number].tolist()],
            1,
            Sampling(temperature=self.temperatures[chosen]),
        )
        own = self.question_vocabulary.encode(asked.text).to(real.ids.device)
        return concatenate_tokens([own, damaged])

    def _damaged(self, real: Tokens) -> Tokens:
        """Real questions (B, T), each damaged in a way of its own; `spliced_share` are spliced."""
        splice = KINDS.index("splice")
        share = self.spliced_share / (1 - self.own_share)
        kinds = torch.randint(splice, (len(real),), device=real.ids.device)
        kinds[torch.rand(len(real), device=real.ids.device) < share] = splice
        return perturb(real, len(self.question_vocabulary), kinds)
