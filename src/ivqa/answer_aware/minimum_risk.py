"""Minimum-Bayes-risk question: the sample of highest expected CIDEr, weighted by a VQA model."""

from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from typing_extensions import override

from ivqa.answer_aware.dual_module import DualModule
from ivqa.answer_aware.reranking import ProposalQuestioner
from ivqa.data import VQADataModule
from ivqa.errors import UserError
from ivqa.generators import Questions
from ivqa.metrics import CiderStatistics, expected_cider


class ConsensusQuestioner(ProposalQuestioner):
    """A generator whose samples a VQA model weights by how well they fit the answer.

    The target is p*(q | I, a), proportional to p(q | I, a) phi(a | I, q)^w: a likelihood trained on
    pairs learns what people ask, a VQA model which questions an answer fits. Samples of p* are
    resampled from p with the weights phi^w (Rubin 1987). The best question is the decision of
    minimum Bayes risk under p* with the utility CIDEr-D, see `expected_cider`.
    """

    version: ClassVar[int] = 1

    _statistics: CiderStatistics | None = None

    @classmethod
    def of(cls, module: DualModule, **settings: Any) -> Self:
        """Weights the questions of a generator by the VQA model that it was trained with.

        The settings are answer_weight and num_proposals, see `ProposalQuestioner`.
        """
        answerer: Any = module.answerer  # typed: `Answerer` allows models without a closed set
        return cls(module, answerer, **settings)

    def remember(self, datamodule: VQADataModule) -> None:
        """Counts the n-grams of the training questions, which the utility needs."""
        training = datamodule.dataset.split("train").questions
        self._statistics = CiderStatistics.of([[question] for question in training])

    @override
    def choose(self, fit: Tensor, generator: torch.Generator | None) -> Tensor:
        weights = (fit - fit.amax(dim=1, keepdim=True)).exp()
        return torch.multinomial(weights, 1, generator=generator)[:, 0]

    @override
    def scores(self, proposals: Questions, fit: Tensor) -> Tensor:
        if self._statistics is None:
            raise UserError(
                "the consensus of questions needs the training questions: call "
                "remember(datamodule) first, as evaluate.py does"
            )
        pair = proposals.pair.cpu()
        largest = torch.full((int(pair.max()) + 1,), -torch.inf)
        largest.scatter_reduce_(0, pair, fit, "amax")
        weights = (fit - largest[pair]).exp().double().numpy()
        utility = expected_cider(proposals.text, pair.numpy(), weights, self._statistics)
        return torch.from_numpy(utility).float()
