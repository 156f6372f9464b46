"""Algorithm 1: the belief set B(I, a) = {q : argmax_a' phi(a' | I, q) = a} [iVQA 5, supplement]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ivqa.data.batch import ImageBatch
from ivqa.diagnosis.beliefs import Belief
from ivqa.diagnosis.candidates import Candidates, LegalityJudge
from ivqa.generators import Questioner, Questions, Sampling, Strategy
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa import Answerer


@dataclass(frozen=True)
class Found:
    """What one search over P pairs found.

    candidates: the N distinct questions of all generators, legal or not. legal: (N,) bool.
    source: (N,) index of the generator whose sample of the question was the most probable.
    kept: rows of the beliefs, pair by pair, most confident first.
    samples: of each generator by name, the candidate that each of its samples is, copies included.
    """

    candidates: Candidates
    legal: Tensor
    source: Tensor
    kept: Tensor
    samples: Mapping[str, Tensor]

    def beliefs(self, image_ids: Sequence[int]) -> list[Belief]:
        """The kept questions as beliefs.

        Args:
            image_ids: The image of each of the P pairs.
        """
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
    """Samples `num_latents` z for a pair and keeps the legal questions that the model answers so.

    questioners: by name, the candidates of all are pooled. strategy: how a z becomes a question.
    legality: p(legal) that a belief must exceed; None takes the judge's own limit, 0 keeps all.
    """

    questioners: Mapping[str, Questioner]
    answerer: Answerer
    answers: AnswerVocabulary
    judge: LegalityJudge
    num_latents: int = 100
    strategy: Strategy = Sampling()  # noqa: RUF009 - frozen
    legality: float | None = None

    def __call__(
        self, images: ImageBatch, answers: Sequence[str], generator: torch.Generator
    ) -> Found:
        """Searches the belief sets of P pairs, which must be answers of the model."""
        drawn = {
            name: questioner.sample(
                images, list(answers), self.num_latents, self.strategy, generator
            )
            for name, questioner in self.questioners.items()
        }
        questions, source, rows = pooled(list(drawn.values()))
        candidates = Candidates(
            questions, images, list(answers), self.answerer, self.answers, self.judge
        )
        limit = self.judge.limit if self.legality is None else self.legality
        legal = (
            candidates.legality > limit
            if limit > 0
            else torch.ones(len(candidates), dtype=torch.bool)
        )
        kept = (candidates.believed & legal).nonzero()[:, 0]
        kept = kept[candidates.phi[kept].argsort(descending=True, stable=True)]
        kept = kept[questions.pair.cpu()[kept].argsort(stable=True)]
        return Found(candidates, legal, source, kept, dict(zip(drawn, rows, strict=True)))


def pooled(parts: Sequence[Questions]) -> tuple[Questions, Tensor, list[Tensor]]:
    """The distinct questions of each pair over all parts, pair by pair.

    Of identical questions of a pair the most probable sample stays. Returns also from which part
    each is (N,), and for every part the row (N_part,) that each of its questions became.
    """
    whole = replace(Questions.concatenate(parts), pair=torch.cat([part.pair for part in parts]))
    pairs = whole.pair.tolist()
    codes: dict[tuple[int, str], int] = {}
    code = [codes.setdefault(key, len(codes)) for key in zip(pairs, whole.text, strict=True)]
    group = torch.tensor(code, dtype=torch.int64)
    order = whole.log_likelihood.cpu().argsort(descending=True, stable=True)
    order = order[group[order].argsort(stable=True)]
    ranked = group[order]
    first = torch.ones_like(ranked, dtype=torch.bool)
    first[1:] = ranked[1:] != ranked[:-1]
    best = order[first]  # by code
    by_pair = whole.pair.cpu()[best].argsort(stable=True)
    position = torch.empty_like(by_pair)
    position[by_pair] = torch.arange(len(by_pair))
    sizes = [len(part) for part in parts]
    origin = torch.arange(len(parts)).repeat_interleave(torch.tensor(sizes))
    rows = best[by_pair]
    chosen = whole.select(rows.to(whole.pair.device))
    return chosen, origin[rows], list(position[group].split(sizes))
