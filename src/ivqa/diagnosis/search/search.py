"""Algorithm 1: the belief set B(I, a) = {q : argmax_a' phi(a' | I, q) = a} [iVQA 5, supplement]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.diagnosis.candidates import Candidates, LegalityJudge
from ivqa.generators import Questioner, Questions, Sampling, Strategy, most_probable
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa import Answerer


@dataclass(frozen=True)
class Found:
    """The result of one search over P pairs.

    Args:
        candidates: N distinct questions of all generators, legal or not.
        legal: (N,) bool: whether the question is legal.
        source: (N,) int64: index of the generator whose sample of the question was most probable.
        kept: (K,) int64: rows of the beliefs, pair by pair, by falling phi.
        samples: For each generator by name, the row of the candidate of each of its samples,
            copies included.
    """

    candidates: Candidates
    legal: Tensor
    source: Tensor
    kept: Tensor
    samples: Mapping[str, Tensor]

    def beliefs(self, image_ids: Sequence[int]) -> list[Belief]:
        """The records of the kept questions, in the order of `kept`, without types."""
        questions, names = self.candidates.questions, list(self.samples)
        phi, legality = self.candidates.phi, self.candidates.legality
        beliefs = []
        for row in self.kept.tolist():
            pair = self.candidates.pairs[row]
            belief = Belief(
                image_id=image_ids[pair],
                answer=self.candidates.answers[pair],
                question=questions.text[row],
                phi=round(float(phi[row]), 6),
                log_likelihood=round(float(questions.log_likelihood[row]), 4),
                legality=round(float(legality[row]), 6),
                source=names[int(self.source[row])],
            )
            beliefs.append(belief)
        return beliefs


@dataclass(frozen=True)
class BeliefSearch:
    """Samples questions for (image, answer) pairs and keeps the legal ones with that answer.

    Args:
        questioners: Generators by name; their samples are pooled.
        answerer: The VQA model phi.
        answers: The answers of the model.
        legality_model: The legality model.
        num_latents: Number of z that each generator samples for a pair.
        strategy: How a z becomes a question.
        legality: Threshold of p(legal), in [0, 1]. None takes the model's own limit, 0 keeps all.
    """

    questioners: Mapping[str, Questioner]
    answerer: Answerer
    answers: AnswerVocabulary
    legality_model: LegalityJudge
    num_latents: int = 100
    strategy: Strategy = Sampling()  # noqa: RUF009 - frozen
    legality: float | None = None

    def __call__(
        self, images: ImageBatch, answers: Sequence[str], generator: torch.Generator
    ) -> Found:
        """Searches the belief sets of P pairs, whose answers are all answers of the model.

        `generator` has the random numbers of the sampling. Returns the candidates and which of them
        are beliefs.
        """
        drawn = {
            name: questioner.sample(
                images, list(answers), self.num_latents, self.strategy, generator
            )
            for name, questioner in self.questioners.items()
        }
        questions, source, rows = pooled(list(drawn.values()))
        candidates = Candidates(
            questions, images, list(answers), self.answerer, self.answers, self.legality_model
        )
        limit = self.legality_model.limit if self.legality is None else self.legality
        legal = (
            candidates.legality > limit
            if limit > 0
            else torch.ones(len(candidates), dtype=torch.bool)
        )
        kept = (candidates.believed & legal).nonzero()[:, 0]
        # Two stable sorts: by pair, and within a pair by falling phi.
        kept = kept[candidates.phi[kept].argsort(descending=True, stable=True)]
        kept = kept[questions.pair.cpu()[kept].argsort(stable=True)]
        return Found(candidates, legal, source, kept, dict(zip(drawn, rows, strict=True)))


def pooled(parts: Sequence[Questions]) -> tuple[Questions, Tensor, list[Tensor]]:
    """Merges the questions of several generators about the same pairs and removes duplicates.

    Of identical questions of a pair, the most probable sample is kept.

    Returns:
        N distinct questions, pair by pair; the index of the part of each, (N,) int64; and for
        each part the row in the result of each of its questions, (N_part,) int64.
    """
    # concatenate() numbers the pairs of each part after those of the part before. Here all parts
    # are about the same pairs.
    whole = replace(Questions.concatenate(parts), pair=torch.cat([part.pair for part in parts]))
    _, group = whole.distinct()
    best = most_probable(whole.log_likelihood.cpu(), group)  # one row of each group
    by_pair = whole.pair.cpu()[best].argsort(stable=True)
    # From the number of a group to its row in the result.
    position = torch.empty_like(by_pair)
    position[by_pair] = torch.arange(len(by_pair))
    sizes = [len(part) for part in parts]
    origin = torch.arange(len(parts)).repeat_interleave(torch.tensor(sizes))
    rows = best[by_pair]
    chosen = whole.select(rows.to(whole.pair.device))
    return chosen, origin[rows], list(position[group].split(sizes))
