"""Proposals of a question generator, weighed by a VQA model; the baseline VQG + VQA (iVQA 4)."""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from ivqa.data.batches.batch import ImageBatch
from ivqa.generators import GeneratorModule, Questions, Sampling, Strategy
from ivqa.generators.likelihood import Likelihood
from ivqa.ranges import Count, NonNegative
from ivqa.vqa import Answerer
from ivqa.vqa.likelihood import log_phi

_QUESTIONS_PER_PASS = 1024
_LEAST = math.log(1e-12)  # log phi of an answer that the VQA model does not know


class ProposalQuestioner(nn.Module, ABC):
    """A question generator whose proposals a VQA model weighs by how well they fit the answer.

    A subclass says which of several proposals is asked, and how the best one is found.

    Args:
        questioner: Proposes questions, p(q | I, a).
        answerer: The VQA model phi.
        answer_weight: w, the weight of log phi(a | I, q) beside log p(q | I, a).
        num_proposals: Proposals for one question.
    """

    def __init__(
        self,
        questioner: GeneratorModule,
        answerer: Answerer,
        answer_weight: NonNegative = 1.0,
        num_proposals: Count = 10,
    ) -> None:
        super().__init__()
        self.questioner = questioner
        self.answer_weight = answer_weight
        self.num_proposals = num_proposals
        self._answerer = (answerer,)  # not a submodule: nothing here is trained

    @abstractmethod
    def choose(self, fit: Tensor, generator: torch.Generator | None) -> Tensor:
        """Chooses the proposal that is asked, by its column (N,) int64.

        `fit` is w log phi of the proposals of N questions, (N, num_proposals).
        """

    @abstractmethod
    def scores(self, proposals: Questions, fit: Tensor) -> Tensor:
        """Scores N proposals, (N,) float32, of which the best one of a pair is asked.

        Those of one pair follow each other; `fit` is their w log phi, (N,).
        """

    @torch.no_grad()
    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Samples questions, each chosen from proposals of its own; see `Questioner.sample`.

        Proposals are always sampled, since a generator without latent variable would propose one
        question again and again. `log_likelihood` of the questions is w log phi(a | I, q).

        With a deterministic strategy, as for the best question of a pair, the `num_samples`
        questions are themselves the proposals, with their `scores` as `log_likelihood`: the caller
        takes the best.
        """
        raw = strategy is not None and strategy.deterministic
        each = 1 if raw else self.num_proposals
        sampling = Sampling() if raw else strategy
        found = self.questioner.sample(images, answers, num_samples * each, sampling, generator)
        fit = self._fit(images, answers, found)
        if raw:
            return replace(found, log_likelihood=self.scores(found, fit))
        rows = self.choose(fit.view(-1, each), generator) + torch.arange(0, len(found), each)
        return replace(found.select(rows), log_likelihood=fit[rows])

    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores given questions by log p(q | I, a) + w log phi(a | I, q), in nats.

        The normalising constant, which is the same for all questions of a pair, is left out.
        """
        return self.likelihood(images, answers, questions).value

    @torch.no_grad()
    def likelihood(
        self,
        images: ImageBatch,
        answers: list[str],
        questions: list[str],
        samples: int | None = None,
    ) -> Likelihood:
        """Scores given questions as `log_likelihood` does; the generator's part has an error."""
        own = self.questioner.likelihood(images, answers, questions, samples)
        fit = self.answer_weight * self._log_phi(images, questions, answers)
        return replace(own, value=own.value.cpu() + fit)

    def _fit(self, images: ImageBatch, answers: list[str], found: Questions) -> Tensor:
        """The w log phi of each question, (N,); equal questions of a pair are answered once."""
        first, group = found.distinct()
        pairs = found.pair.cpu()[first]
        own = images.select(pairs.to(images.index.device))
        texts = [found.text[row] for row in first.tolist()]
        wanted = [answers[pair] for pair in pairs.tolist()]
        return self.answer_weight * self._log_phi(own, texts, wanted)[group]

    def _log_phi(self, images: ImageBatch, questions: list[str], answers: list[str]) -> Tensor:
        """Log phi of B questions and answers, (B,) on the CPU, at least log 1e-12."""
        parts = [torch.empty(0)]
        every = torch.arange(len(questions), device=images.index.device)
        for start in range(0, len(questions), _QUESTIONS_PER_PASS):
            rows = slice(start, start + _QUESTIONS_PER_PASS)
            some = images.select(every[rows])
            parts.append(log_phi(self._answerer[0], some, questions[rows], answers[rows]))
        return torch.cat(parts).clamp_min(_LEAST)


class RerankedQuestioner(ProposalQuestioner):
    """Baseline VQG + VQA: asks the proposal to which a VQA model most probably gives the answer.

    The proposals come from a generator that sees the image alone, ten for a question in the paper.
    With w = 1 given questions are scored by Bayes' rule, p(q | I, a) = p(q | I) phi(a | I, q) /
    p(a | I), without the constant p(a | I).
    """

    version: ClassVar[int] = 1

    @override
    def choose(self, fit: Tensor, generator: torch.Generator | None) -> Tensor:
        return fit.argmax(dim=1)

    @override
    def scores(self, proposals: Questions, fit: Tensor) -> Tensor:
        return fit
