"""A toy scene, and a toy VQA model that answers by the words of the question alone."""

from dataclasses import fields
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis import GoalReward, PolicyGradientModule, PolicyObjective
from ivqa.generators import GeneratorModule, VariationalGenerator
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
    """Answers "red" to questions with "color", "yes" to those with "star", and "no" to others.

    `asked` counts the questions.
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
    """Judges texts of two words or more as legal."""

    limit = 0.5

    def probabilities(self, questions: list[str]) -> Tensor:
        return torch.tensor([0.9 if len(text.split()) > 1 else 0.1 for text in questions])


def toy_questioner(seed: int = 0, **arguments: Any) -> GeneratorModule:
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
    return GeneratorModule(
        network=network,
        question_vocabulary=WORDS,
        answer_words=Vocabulary(["yes", "no", "red"]),
        feature_sizes={"concepts": 5},
        max_length=5,
        **arguments,
    )


def toy_policy(**arguments: Any) -> PolicyGradientModule:
    """A policy; its arguments are those of the module and of `PolicyObjective` together."""
    names = {field.name for field in fields(PolicyObjective)}
    objective = {name: value for name, value in arguments.items() if name in names}
    settings: dict[str, Any] = {
        "questioner": toy_questioner(),
        "answerer": WordAnswerer(),
        "rewards": {"goal": GoalReward()},
    }
    settings |= {name: value for name, value in arguments.items() if name not in names}
    return PolicyGradientModule(**settings, objective=PolicyObjective(**objective))


def toy_images(samples: int) -> ImageBatch:
    index = torch.arange(samples) % 3
    concepts = torch.rand(3, 5, generator=torch.Generator().manual_seed(1))
    return ImageBatch(ids=torch.tensor([7, 8, 9]), index=index, concepts=concepts)
