"""A scene, and a world in which a VQA model answers by the words of the question alone."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ivqa.data.batch import ImageBatch
from ivqa.generators import QuestionGenerationModule, VariationalGenerator
from ivqa.scenes import Scene
from ivqa.scenes.world import Thing
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary

ANSWERS = AnswerVocabulary(["yes", "no", "red"])
WORDS = Vocabulary(["is", "what", "color", "star", "it"])


def toy_scene() -> Scene:
    """A red star left of a blue heart."""
    star = Thing("star", "red", "large", "plain", 0.2, 0.5)
    heart = Thing("heart", "blue", "small", "dotted", 0.8, 0.5)
    return Scene("beach", "day", "clear", (star, heart))


class WordAnswerer:
    """Answers red to what asks for a color, yes to what asks for a star, else no.

    Counts the questions it was asked.
    """

    answers: AnswerVocabulary | None = ANSWERS

    def __init__(self) -> None:
        self.asked = 0

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        assert len(images) == len(questions)
        self.asked += len(questions)
        best = [2 if "color" in q.lower() else 0 if "star" in q.lower() else 1 for q in questions]
        scores = torch.full((len(questions), 3), 0.1)
        scores[torch.arange(len(questions)), torch.tensor(best, dtype=torch.long)] = 0.8
        return scores.log()

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        best = self.log_scores(images, questions).argmax(dim=1)
        return [ANSWERS.answers[index] for index in best.tolist()]


class LongIsLegal:
    """Finds texts of two words or more legal."""

    limit = 0.5

    def probabilities(self, questions: list[str]) -> Tensor:
        return torch.tensor([0.9 if len(text.split()) > 1 else 0.1 for text in questions])


def toy_questioner(seed: int = 0, **arguments: Any) -> QuestionGenerationModule:
    network = partial(
        VariationalGenerator,
        embedding_size=8,
        hidden_size=12,
        answer_size=6,
        latent_size=4,
        dropout=0.0,
        feed_condition=True,
    )
    torch.manual_seed(seed)
    return QuestionGenerationModule(
        network=network,
        question_vocabulary=WORDS,
        answer_words=Vocabulary(["yes", "no", "red"]),
        feature_sizes={"concepts": 5},
        max_length=5,
        **arguments,
    )


def toy_images(samples: int) -> ImageBatch:
    index = torch.arange(samples) % 3
    concepts = torch.rand(3, 5, generator=torch.Generator().manual_seed(1))
    return ImageBatch(ids=torch.tensor([7, 8, 9]), index=index, concepts=concepts)
