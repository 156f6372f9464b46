"""Questions that a VQA model finds to fit, and among them the one most like the others."""

import numpy as np
import torch
from torch import Tensor, nn

from ivqa.data import VQADataModule
from ivqa.data.batch import ImageBatch
from ivqa.diagnosis.reranking import log_phi
from ivqa.errors import UserError
from ivqa.generators import QuestionGenerationModule, Questions, Sampling, Strategy
from ivqa.metrics import CiderStatistics, expected_cider
from ivqa.ranges import Count, NonNegative
from ivqa.vqa import Answerer


class ConsensusQuestioner(nn.Module):
    """A generator whose samples a VQA model weights by how well they fit the answer.

    The target is p*(q | I, a), proportional to p(q | I, a) phi(a | I, q)^w: a likelihood trained on
    pairs learns what people ask, a VQA model which questions an answer fits. Samples of p* are
    resampled from p with the weights phi^w (Rubin 1987). The best question is the decision of
    minimum Bayes risk under p* with the utility CIDEr-D, see `expected_cider`.

    Args:
        questioner: The generator p(q | I, a).
        answerer: The VQA model phi.
        answer_weight: w.
        num_proposals: Samples of p for one sample of p*.
    """

    def __init__(
        self,
        questioner: QuestionGenerationModule,
        answerer: Answerer,
        answer_weight: NonNegative = 3.0,
        num_proposals: Count = 10,
    ) -> None:
        super().__init__()
        self.questioner = questioner
        self.answer_weight = answer_weight
        self.num_proposals = num_proposals
        self._answerer = (answerer,)  # not a submodule: nothing here is trained
        self._statistics: CiderStatistics | None = None

    def remember(self, datamodule: VQADataModule) -> None:
        """Counts the n-grams of the training questions, which the utility needs.

        Args:
            datamodule: The data.
        """
        training = datamodule.dataset.split("train").questions
        self._statistics = CiderStatistics.of([[question] for question in training])

    @torch.no_grad()
    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Samples questions from p*.

        With a deterministic strategy, as for the best question of a pair, the `num_samples`
        questions are samples of p, and their score is the utility: the caller takes the best.

        Args:
            images: Image features of B pairs.
            answers: The B answers.
            num_samples: Questions for each pair, >= 1.
            strategy: How p is sampled.
            generator: Source of the random numbers.

        Returns:
            N = B * num_samples questions, pair by pair. `log_likelihood` is w log phi(a | I, q), or
            the expected CIDEr-D under p*.

        Raises:
            UserError: The utility is needed, and `remember` was not called.
        """
        best = strategy is not None and strategy.deterministic
        each = 1 if best else self.num_proposals
        sampling = Sampling() if best else strategy
        found = self.questioner.sample(images, answers, num_samples * each, sampling, generator)
        fit = self.answer_weight * self._log_phi(images, answers, found)
        if best:
            return self._scored(found, fit)
        weights = (fit.view(-1, each) - fit.view(-1, each).amax(dim=1, keepdim=True)).exp()
        drawn = torch.multinomial(weights, 1, generator=generator)[:, 0]
        rows = drawn + torch.arange(0, len(found), each)
        chosen = found.select(rows)
        return Questions(chosen.tokens, chosen.text, fit[rows], chosen.pair, chosen.z)

    @torch.no_grad()
    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores given questions by p*.

        Args:
            images: Image features of B pairs.
            answers: The B answers.
            questions: One question for each pair.

        Returns:
            log p(q | I, a) + w log phi(a | I, q), (B,) float32, in nats; the normalising constant,
            which is the same for all questions of a pair, is left out.
        """
        own = self.questioner.log_likelihood(images, answers, questions).cpu()
        pair = torch.arange(len(answers))
        fit = log_phi(self._answerer[0], images, answers, pair, questions)
        return own + self.answer_weight * fit

    def _log_phi(self, images: ImageBatch, answers: list[str], found: Questions) -> Tensor:
        """Log phi of each question, (N,); equal questions of a pair are answered once."""
        number: dict[tuple[int, str], int] = {}
        places = [
            number.setdefault(key, len(number))
            for key in zip(found.pair.tolist(), found.text, strict=True)
        ]
        pair = torch.tensor([pair for pair, _ in number])
        texts = [text for _, text in number]
        own = images.select(pair.to(images.index.device))
        return log_phi(self._answerer[0], own, answers, pair, texts)[torch.tensor(places)]

    def _scored(self, found: Questions, fit: Tensor) -> Questions:
        """The questions with the expected CIDEr-D of each under p*."""
        if self._statistics is None:
            raise UserError(
                "the consensus of questions needs the training questions: call "
                "remember(datamodule) first, as evaluate.py does"
            )
        largest = torch.full((int(found.pair.max()) + 1,), -torch.inf)
        largest.scatter_reduce_(0, found.pair, fit, "amax")
        weights = (fit - largest[found.pair]).exp().double().numpy()
        utility = expected_cider(found.text, np.asarray(found.pair), weights, self._statistics)
        score = torch.from_numpy(utility).float()
        return Questions(found.tokens, found.text, score, found.pair, found.z)
