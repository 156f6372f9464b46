"""A diagnosis without policy gradient: a question generator asks as it is."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from ivqa.diagnosis.candidates import LegalityJudge
from ivqa.diagnosis.policy.module import known_answers
from ivqa.generators import Questioner
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa import Answerer


class WithoutPolicy(nn.Module):
    """The models of a diagnosis, where `PolicyGradientModule` would train a policy.

    There is no legality model: a model that is told to ask writes English, but not the questions of
    a data set, which a legality model learns to tell from others. All questions count as legal.

    Args:
        questioner: The generator.
        answerer: The VQA model that is diagnosed.
        answers: The answers to ask about, for an answerer without a closed set of answers.

    Raises:
        UserError: There is no set of answers.
    """

    version: ClassVar[int] = 1

    def __init__(
        self, *, questioner: Questioner, answerer: Answerer, answers: AnswerVocabulary | None = None
    ) -> None:
        super().__init__()
        self.answers = known_answers(answerer, answers)
        self.reference = self.questioner = questioner
        self.answerer = answerer
        self.legality_model: LegalityJudge = _AllLegal()


class _AllLegal:
    limit = 0.0

    def probabilities(self, questions: Sequence[str]) -> Tensor:
        return torch.ones(len(questions))
