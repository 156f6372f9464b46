"""Questions asked about (image, answer) pairs, and what the judges say of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from ivqa.data.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.generators import Questions
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.normalisation import normalise_answer
from ivqa.vqa import Answerer

# Questions answered at once: attention over a grid needs some 150 kB a question.
_ANSWERED_AT_ONCE = 1024


class LegalityJudge(Protocol):
    """Says how much a text looks like a question that people ask."""

    def probabilities(self, questions: Sequence[str]) -> Tensor:
        """p(legal) of N texts, (N,) float32."""

    @property
    def limit(self) -> float:
        """The calibrated threshold: what is below counts as illegal."""


@dataclass(frozen=True)
class Candidates:
    """N questions about P pairs; judgements are made on demand, once for each distinct question.

    questions: `pair` says to which of the P pairs each belongs. images, answers: of the P pairs.
    answers_known: the closed set that the answerer chooses from; for one that answers in its own
    words, those it may be asked about.
    """

    questions: Questions
    images: ImageBatch
    answers: Sequence[str]
    answerer: Answerer
    answers_known: AnswerVocabulary
    judge: LegalityJudge | None = None

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def pairs(self) -> list[int]:
        """The pair of each of the N questions."""
        return self.questions.pair.tolist()

    @cached_property
    def first(self) -> Tensor:
        """Rows (U,) of the first occurrence of each distinct question of a pair."""
        return self._distinct[0]

    @cached_property
    def group(self) -> Tensor:
        """(N,) which of the U distinct questions of `first` each question is."""
        return self._distinct[1]

    @cached_property
    def _distinct(self) -> tuple[Tensor, Tensor]:
        seen: dict[tuple[int, str], int] = {}
        group = [
            seen.setdefault(key, len(seen))
            for key in zip(self.pairs, self.questions.text, strict=True)
        ]
        codes = torch.tensor(group, dtype=torch.int64)
        first = torch.full((len(seen),), len(group)).scatter_reduce(
            0, codes, torch.arange(len(group)), "amin"
        )
        return first, codes

    @cached_property
    def _verdicts(self) -> tuple[Tensor, Tensor]:
        """phi(a | I, q) and whether the model answers a, of the U distinct questions."""
        pair = self.questions.pair.cpu()[self.first]
        texts = [self.questions.text[row] for row in self.first.tolist()]
        judge = self._of_open_set if self.answerer.answers is None else self._of_closed_set
        parts = [
            judge(pair[rows], [texts[row] for row in rows.tolist()])
            for rows in torch.arange(len(texts)).split(_ANSWERED_AT_ONCE)
            if len(rows)
        ]
        if not parts:
            return torch.zeros(0), torch.zeros(0, dtype=torch.bool)
        phi, believed = zip(*parts, strict=True)
        return torch.cat(phi), torch.cat(believed)

    def _of_closed_set(self, pair: Tensor, texts: list[str]) -> tuple[Tensor, Tensor]:
        images = self.images.select(pair.to(self.images.index.device))
        scores = self.answerer.log_scores(images, texts).cpu()
        wanted = self.answers_known.encode(list(self.answers))[pair]
        phi = scores.gather(1, wanted[:, None])[:, 0].exp()
        return phi, scores.argmax(dim=1) == wanted

    def _of_open_set(self, pair: Tensor, texts: list[str]) -> tuple[Tensor, Tensor]:
        """A model that answers in its own words believes a where it writes a."""
        images = self.images.select(pair.to(self.images.index.device))
        written = [normalise_answer(text) for text in self.answerer.answer(images, texts)]
        wanted = [self.answers[at] for at in pair.tolist()]
        phi = torch.empty(len(texts))
        for answer in dict.fromkeys(wanted):
            rows = [row for row, own in enumerate(wanted) if own == answer]
            asked = images.select(torch.tensor(rows, device=images.index.device))
            scores = self.answerer.log_scores(asked, [texts[row] for row in rows], [answer])
            phi[rows] = scores[:, 0].cpu().exp()
        pairs = zip(written, wanted, strict=True)
        return phi, torch.tensor([own == normalise_answer(answer) for own, answer in pairs])

    @property
    def phi(self) -> Tensor:
        """Probability of the pair's own answer under the VQA model, (N,) float32."""
        return self._verdicts[0][self.group]

    @property
    def believed(self) -> Tensor:
        """(N,) bool: whether the model answers the question with the pair's answer."""
        return self._verdicts[1][self.group]

    @cached_property
    def legality(self) -> Tensor:
        """p(legal) of the N questions, (N,) float32 in [0, 1].

        Raises UserError without a legality model.
        """
        if self.judge is None:
            raise UserError("legality needs a legality model; name one in model.parts.judge")
        codes = {text: code for code, text in enumerate(dict.fromkeys(self.questions.text))}
        scores = self.judge.probabilities(list(codes)).cpu()
        return scores[torch.tensor([codes[text] for text in self.questions.text])]
