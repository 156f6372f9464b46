"""Questions about (image, answer) pairs, with the scores of the VQA and the legality model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.device import rows_of_pass
from ivqa.errors import UserError
from ivqa.generators import Questions
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.normalisation import normalise_answer
from ivqa.vqa import Answerer, ReadsWords
from ivqa.vqa.likelihood import log_phi

# Bounds the memory of a pass on a CPU: attention over a grid needs about 150 kB a question.
_QUESTIONS_PER_PASS = 1024


class LegalityJudge(Protocol):
    """A model of how likely a text is a question that people ask."""

    def probabilities(self, questions: Sequence[str]) -> Tensor:
        """p(legal) of N texts, (N,) float32 in [0, 1]."""

    @property
    def limit(self) -> float:
        """The calibrated threshold: only texts with p(legal) above it are legal."""


@dataclass(frozen=True)
class Candidates:
    """N questions about P (image, answer) pairs.

    Scores are computed on demand, once for each distinct question.

    Args:
        questions: N questions; `questions.pair` says to which of the P pairs each belongs.
        images: Images of the P pairs.
        answers: Answers of the P pairs.
        answerer: The VQA model.
        answers_known: The closed set that the answerer chooses from; for an answerer without a
            closed set, the answers to ask about.
        legality_model: The legality model, None without one.
    """

    questions: Questions
    images: ImageBatch
    answers: Sequence[str]
    answerer: Answerer
    answers_known: AnswerVocabulary
    legality_model: LegalityJudge | None = None

    def __len__(self) -> int:
        return len(self.questions)

    @cached_property
    def pairs(self) -> list[int]:
        """The pair of each of the N questions."""
        return self.questions.pair.tolist()

    @cached_property
    def first(self) -> Tensor:
        """(U,) rows of the first occurrence of each distinct question of a pair."""
        return self._distinct[0]

    @cached_property
    def group(self) -> Tensor:
        """(N,) index into `first` of each question."""
        return self._distinct[1]

    @cached_property
    def _distinct(self) -> tuple[Tensor, Tensor]:
        return self.questions.distinct()

    @cached_property
    def _scores(self) -> tuple[Tensor, Tensor]:
        """(U,) phi(a | I, q) and (U,) whether the model answers a, for the distinct questions."""
        if not len(self.first):
            return torch.zeros(0), torch.zeros(0, dtype=torch.bool)
        device = self.questions.pair.device
        score = self._score_open_set if self.answerer.answers is None else self._score_closed_set
        passes = self.first.to(device).split(rows_of_pass(_QUESTIONS_PER_PASS, device))
        phi, believed = zip(*(score(rows) for rows in passes), strict=True)
        return torch.cat(phi).cpu(), torch.cat(believed).cpu()

    def _score_closed_set(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Scores the questions `rows` (M,) with a model that chooses from a closed set."""
        images, texts = self._images_of(rows), self.questions.texts(rows)
        if isinstance(self.answerer, ReadsWords):
            reader: ReadsWords = self.answerer
            scores = reader.log_scores(images, texts)  # (M, answers)
        else:
            scores = self.answerer.log_scores(images, list(texts))
        # Column of each pair's answer in the closed set, (M,).
        wanted = self.answers_known.encode(list(self.answers)).to(scores.device)
        wanted = wanted[self.questions.pair[rows].to(scores.device)]
        phi = scores.gather(1, wanted[:, None])[:, 0].exp()
        return phi, scores.argmax(dim=1) == wanted

    def _score_open_set(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Scores texts with a model that answers in its own words: it believes a if it writes a."""
        images, texts = self._images_of(rows), list(self.questions.texts(rows))
        written = [normalise_answer(text) for text in self.answerer.answer(images, texts)]
        wanted = [self.answers[at] for at in self.questions.pair[rows].tolist()]
        phi = log_phi(self.answerer, images, texts, wanted).exp()
        pairs = zip(written, wanted, strict=True)
        return phi, torch.tensor([own == normalise_answer(answer) for own, answer in pairs])

    def _images_of(self, rows: Tensor) -> ImageBatch:
        """The images of questions; a model would compute its part of the others at each pass."""
        return self.images.select(self.questions.pair[rows].to(self.images.index.device)).used()

    @property
    def phi(self) -> Tensor:
        """(N,) float32 in [0, 1]: the VQA model's probability phi of the pair's answer."""
        return self._scores[0][self.group]

    @property
    def believed(self) -> Tensor:
        """(N,) bool: whether the VQA model answers the question with the pair's answer."""
        return self._scores[1][self.group]

    @cached_property
    def legality(self) -> Tensor:
        """(N,) float32 in [0, 1]: p(legal) of the questions.

        Raises:
            UserError: There is no legality model.
        """
        if self.legality_model is None:
            raise UserError(
                "legality needs a legality model; name one in model.parts.legality_model"
            )
        # p(legal) depends on the text alone, so copies are scored once.
        first, group = self.questions.distinct(of_pair=False)
        texts = self.questions.texts(first.to(self.questions.pair.device))
        return self.legality_model.probabilities(texts).cpu()[group]
