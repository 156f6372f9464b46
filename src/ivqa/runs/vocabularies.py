"""The words and answers that a model is trained with."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Vocabularies:
    """Words of the training questions and answers, and the closed answer set A.

    Attributes:
        answers: The answers that a model chooses among; None for a model without a closed set.
    """

    question_vocabulary: Vocabulary
    answer_words: Vocabulary
    answers: AnswerVocabulary | None = None

    def restored(self, component: Mapping[str, Any]) -> "Vocabularies":
        """These vocabularies, replaced by those that the `component` of a checkpoint names."""
        known: dict[str, Any] = {}
        if "question_words" in component:
            known["question_vocabulary"] = Vocabulary(component["question_words"])
        if "answer_words" in component:
            known["answer_words"] = Vocabulary(component["answer_words"])
        if "answers" in component:
            known["answers"] = AnswerVocabulary(component["answers"])
        return replace(self, **known)
