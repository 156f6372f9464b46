"""A legality model that is trained on while a policy is trained [iVQA 5, GAN-like scheme].

A frozen legality model was trained with the samples of the supervised generator. A policy finds
texts that it has never seen and wrongly takes for questions. `AdversarialJudge` learns to tell
these from real questions in the same steps in which the policy learns from it.
"""

import copy
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ivqa.diagnosis.beliefs.perturbation import KINDS, fingerprints, perturb
from ivqa.diagnosis.legality.module import LegalityModule, text_probabilities
from ivqa.errors import UserError
from ivqa.ranges import Count, CountOrZero
from ivqa.text.vocabulary import Tokens


class AdversarialJudge(nn.Module):
    """A copy of a legality model that is trained on with fresh samples of a policy.

    The loss of a step is the cross-entropy of real questions against two kinds of negatives: the
    distinct samples of the policy, without those that are training questions, and damaged real
    questions, which keep what the model knew before. Each of the three has the same weight as in
    `LegalityModule`: half for the real ones, half for the negatives together.

    Args:
        legality_model: The legality model to start from. It stays as it is.
        num_real: Real questions drawn for each step.
        num_damaged: Damaged questions drawn for each step.
        calibration_questions: Held-out questions that set the threshold, drawn once.
        calibrate_every: Steps between two calibrations.

    Raises:
        UserError: There is no legality model to start from.
    """

    version: ClassVar[int] = 1

    threshold: Tensor
    steps: Tensor

    def __init__(
        self,
        legality_model: LegalityModule | None,
        *,
        num_real: Count = 240,
        num_damaged: CountOrZero = 80,
        calibration_questions: Count = 1000,
        calibrate_every: Count = 20,
    ) -> None:
        super().__init__()
        if legality_model is None:
            raise UserError(
                "model.module.adversary needs a legality model; name model.parts.legality_model"
            )
        self.vocabulary = legality_model.question_vocabulary
        self.network = copy.deepcopy(legality_model.network)
        self.kept = legality_model.kept
        self.num_real, self.num_damaged = num_real, num_damaged
        self.calibration_questions = calibration_questions
        self.calibrate_every = calibrate_every
        self.register_buffer("threshold", legality_model.threshold.clone())
        # Stored, so that a resumed run calibrates at the same steps.
        self.register_buffer("steps", torch.tensor(0))
        self._train: Tokens | None = None  # the real questions to draw from
        self._known: Tensor | None = None  # fingerprints of the training questions
        self._held_out: list[str] = []

    @property
    def limit(self) -> float:
        """The threshold: `kept` of the held-out real questions were above it when it was set."""
        return float(self.threshold)

    def probabilities(self, questions: Sequence[str]) -> Tensor:
        """Computes p(legal) of texts, without dropout; see `LegalityJudge`."""
        return text_probabilities(self.network, self.vocabulary, questions)

    def prepare(self, train: Sequence[str], held_out: Sequence[str]) -> None:
        """Takes the real questions to train with, and held-out ones for the threshold."""
        device = self.threshold.device
        self._train = self.vocabulary.encode(list(dict.fromkeys(train))).to(device)
        self._known = fingerprints(self._train).unique()
        distinct = list(dict.fromkeys(held_out))
        chosen = torch.randperm(len(distinct), generator=torch.Generator().manual_seed(0))
        self._held_out = [distinct[row] for row in chosen[: self.calibration_questions].tolist()]

    def calibrate(self) -> None:
        """Sets the threshold that the share `kept` of the held-out questions is above."""
        scores = self.probabilities(self._held_out)
        self.threshold.fill_(float(scores.quantile(1 - self.kept)))

    def loss(self, samples: Sequence[str]) -> Tensor:
        """Computes the loss of a step; sets the threshold first where that is due.

        `samples` are texts that the policy has just sampled, copies included. Returns a scalar with
        gradients.
        """
        assert self._train is not None  # `prepare` was called
        if int(self.steps) % self.calibrate_every == 0:
            self.calibrate()
        self.steps += 1
        device = self.threshold.device
        drawn = torch.randint(len(self._train), (self.num_real + self.num_damaged,), device=device)
        real = self._train.select(drawn[: self.num_real])
        fakes = [self.vocabulary.encode(list(dict.fromkeys(samples))).to(device)]
        if self.num_damaged:
            kinds = torch.randint(len(KINDS), (self.num_damaged,), device=device)
            damaged = self._train.select(drawn[self.num_real :])
            fakes.append(perturb(damaged, len(self.vocabulary), kinds))
        negatives = [tokens.select(self._unknown(tokens)) for tokens in fakes]
        losses = [F.softplus(self.network(tokens)) for tokens in negatives if len(tokens)]
        negative = torch.cat(losses).mean() if losses else torch.zeros((), device=device)
        return 0.5 * (F.softplus(-self.network(real)).mean() + negative)

    def _unknown(self, tokens: Tokens) -> Tensor:
        """Rows of the texts that are no training questions."""
        assert self._known is not None
        return (~torch.isin(fingerprints(tokens), self._known)).nonzero()[:, 0]
