"""An untrained question generator: questions in plain English that have the wanted answer."""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis.search.asking import given_answers
from ivqa.diagnosis.search.companions import COMPANIONS
from ivqa.diagnosis.search.phrases import noun_phrase, things_in
from ivqa.diagnosis.search.plain_english import SCENE, SEE, Meaning, attributes_of
from ivqa.generators import Questions, Strategy
from ivqa.text.normalisation import normalise_answer
from ivqa.text.vocabulary import Vocabulary
from ivqa.vqa import Answerer

_THINGS = 6  # things that a picture is asked about, those that the model sees first


class PlainEnglish(nn.Module):
    """p(q | I, a): equal for all questions in plain English that the VQA model answers with a.

    The questions are about the things that the model says are in the picture, and about their
    companions, which may not be there. Where none has the answer, all are equally probable.

    Args:
        answerer: The VQA model.
        question_vocabulary: Words of the questions; others become <unk> in the tokens.
    """

    version: ClassVar[int] = 1

    def __init__(self, answerer: Answerer, question_vocabulary: Vocabulary) -> None:
        super().__init__()
        self._answerer = (answerer,)  # not a submodule: nothing here is trained
        self.question_vocabulary = question_vocabulary

    def sample(
        self,
        images: ImageBatch,
        answers: list[str],
        num_samples: int = 1,
        strategy: Strategy | None = None,
        generator: torch.Generator | None = None,
    ) -> Questions:
        """Draws questions; see `Questioner.sample`. There are no words to decode by a strategy."""
        texts: list[str] = []
        scores: list[float] = []
        for row, answer in enumerate(answers):
            fitting = self._fitting(images.select(torch.tensor([row])), answer)
            drawn = torch.randint(len(fitting), (num_samples,), generator=generator)
            texts += [fitting[at] for at in drawn.tolist()]
            scores += [-math.log(len(fitting))] * num_samples
        return Questions(
            tokens=self.question_vocabulary.encode(texts),
            text=texts,
            log_likelihood=torch.tensor(scores),
            pair=torch.arange(len(answers)).repeat_interleave(num_samples),
        )

    def log_likelihood(
        self, images: ImageBatch, answers: list[str], questions: list[str]
    ) -> Tensor:
        """Scores given questions; -inf for those that it does not ask."""
        scores = []
        for row, (answer, question) in enumerate(zip(answers, questions, strict=True)):
            fitting = self._fitting(images.select(torch.tensor([row])), answer)
            scores.append(-math.log(len(fitting)) if question in fitting else -math.inf)
        return torch.tensor(scores)

    def _fitting(self, image: ImageBatch, answer: str) -> Sequence[str]:
        (answerer,) = self._answerer
        named = given_answers(answerer, image, SEE)
        seen = dict.fromkeys(noun for one in named for noun in things_in(one.answer))
        near = dict.fromkeys(other for noun in seen for other in COMPANIONS.get(noun, ()))
        texts = list(SCENE.values())
        for noun in [*list(seen)[:_THINGS], *list(near)[:_THINGS]] or ["thing"]:
            phrase = noun_phrase(noun)
            families = ["exists", *attributes_of(noun)]
            families += [] if phrase.mass or phrase.plural else ["count"]
            texts += [Meaning(family, phrase).question for family in families]
        texts = list(dict.fromkeys(texts))
        given = given_answers(answerer, image, texts)
        wanted = normalise_answer(answer)
        fitting = [
            text
            for text, one in zip(texts, given, strict=True)
            if normalise_answer(one.answer) == wanted
        ]
        return fitting or texts
