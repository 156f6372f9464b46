"""Baseline VQG + VQA: proposals of one generator, ranked by a VQA model (iVQA, section 4)."""

import math

import torch
from torch import Tensor, nn

from ivqa.data.batch import ImageBatch
from ivqa.generators import QuestionGenerationModule, Questions, Sampling, Strategy
from ivqa.ranges import Count
from ivqa.vqa import Answerer

_QUESTIONS_PER_PASS = 1024
_LEAST = math.log(1e-12)  # log phi of an answer that the VQA model does not know


class RerankedQuestioner(nn.Module):
    """Asks the proposal for which a VQA model gives the answer the highest probability.

    Args:
        questioner: Proposes questions; in the paper it sees the image alone.
        answerer: The VQA model phi.
        num_proposals: Proposals for one question; 10 in the paper.
    """

    def __init__(
        self, questioner: QuestionGenerationModule, answerer: Answerer, num_proposals: Count = 10
    ) -> None:
        super().__init__()
        self.questioner = questioner
        self.num_proposals = num_proposals
        self._answerer = (answerer,)  # not a submodule: nothing here is trained

    @torch.no_grad()
    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Samples questions, each the best of `num_proposals` proposals.

        With a deterministic strategy, as for the best question of a pair, the `num_samples`
        questions are themselves the proposals: the caller takes the best.

        Args:
            images: Image features of B pairs.
            answers: The B answers.
            num_samples: Questions for each pair, >= 1.
            strategy: How proposals are decoded; they are always sampled, since the generator has
                no latent variable that would make them differ.
            generator: Source of the random numbers.

        Returns:
            N = B * num_samples questions, pair by pair. `log_likelihood` is log phi(a | I, q), by
            which the proposals are ranked.
        """
        raw = strategy is not None and strategy.deterministic
        each = 1 if raw else self.num_proposals
        sampling = Sampling() if raw else strategy
        found = self.questioner.sample(images, answers, num_samples * each, sampling, generator)
        score = log_phi(
            self._answerer[0], images.select(found.pair), answers, found.pair, found.text
        )
        best = score.view(-1, each).argmax(dim=1) + torch.arange(0, len(found), each)
        chosen = found.select(best)
        return Questions(chosen.tokens, chosen.text, score[best], chosen.pair, chosen.z)

    @torch.no_grad()
    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores given questions by Bayes' rule: p(q | I, a) = p(q | I) phi(a | I, q) / p(a | I).

        Args:
            images: Image features of B pairs.
            answers: The B answers.
            questions: One question for each pair.

        Returns:
            log p(q | I) + log phi(a | I, q), (B,) float32, in nats; log p(a | I), which is the same
            for all questions of a pair, is left out.
        """
        prior = self.questioner.log_likelihood(images, answers, questions).cpu()
        return prior + log_phi(
            self._answerer[0], images, answers, torch.arange(len(answers)), questions
        )


def log_phi(
    answerer: Answerer, images: ImageBatch, answers: list[str], pair: Tensor, questions: list[str]
) -> Tensor:
    """Computes how well a VQA model thinks that questions fit the answers of their pairs.

    Args:
        answerer: The VQA model phi.
        images: The image of each question.
        answers: The answers of the B pairs.
        pair: (N,) int64, the pair of each question.
        questions: N questions.

    Returns:
        log phi(a | I, q), (N,) float32 on the CPU, at least log 1e-12, also of unknown answers.
    """
    wanted = [answers[row] for row in pair.tolist()]
    result = torch.full((len(questions),), _LEAST)
    for rows in torch.arange(len(questions)).split(_QUESTIONS_PER_PASS):
        some = images.select(rows.to(images.index.device))
        texts = [questions[row] for row in rows.tolist()]
        if answerer.answers is None:
            for answer in dict.fromkeys(wanted[row] for row in rows.tolist()):
                own = [at for at, row in enumerate(rows.tolist()) if wanted[row] == answer]
                picked = some.select(torch.tensor(own, device=some.index.device))
                scores = answerer.log_scores(picked, [texts[at] for at in own], [answer])
                result[rows[own]] = scores[:, 0].cpu()
            continue
        columns = answerer.answers.encode([wanted[row] for row in rows.tolist()])
        scores = answerer.log_scores(some, texts).cpu()
        known = columns >= 0
        result[rows[known]] = scores[known, columns[known]]
    return result.clamp_min(_LEAST)
