"""VQG + VQA: proposals ranked by a VQA model."""

from typing import Any

import pytest
import torch
from toy_diagnosis import toy_images

from ivqa.answer_aware import RerankedQuestioner
from ivqa.generators import Beam, Questions, Sampling
from ivqa.generators.likelihood import Likelihood
from ivqa.generators.protocol import EstimatesLikelihood
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Vocabulary

WORDS = ["zero", "one", "two", "three", "four", "five"]
VOCABULARY = Vocabulary(WORDS)


class _Proposer:
    """Proposes zero, one, two, ... for each pair."""

    def __init__(self) -> None:
        self.strategies: list[Any] = []

    def sample(
        self, images: Any, answers: list[str], num: int, strategy: Any, generator: Any
    ) -> Questions:
        self.strategies.append(strategy)
        text = WORDS[:num] * len(answers)
        pair = torch.arange(len(answers)).repeat_interleave(num)
        return Questions(VOCABULARY.encode(text), text, torch.zeros(len(text)), pair)

    def likelihood(
        self, images: Any, answers: list[str], questions: list[str], samples: int | None = None
    ) -> Likelihood:
        value = torch.tensor([-float(WORDS.index(text)) for text in questions])
        return Likelihood(value, torch.full((len(questions),), 0.1 * (samples or 16)))


class _Answerer:
    """phi(yes) is 0.1, 0.2, ... for zero, one, ...; for pair 1 (image 1) the other way round."""

    answers = AnswerVocabulary(["yes", "no"])

    def log_scores(self, images: Any, questions: list[str], answers: Any = None) -> torch.Tensor:
        at = torch.tensor([0.1 * (1 + WORDS.index(text)) for text in questions])
        yes = torch.where(images.index == 0, at, 0.9 - at)
        return torch.stack([yes, 1 - yes], dim=1).log()


def _make(num_proposals: int = 3) -> RerankedQuestioner:
    return RerankedQuestioner(_Proposer(), _Answerer(), num_proposals=num_proposals)  # type: ignore[arg-type]


def test_each_sample_is_the_best_of_its_proposals() -> None:
    found = _make().sample(toy_images(2), ["yes", "yes"], 2, Sampling())
    assert found.text == ["two", "five", "zero", "three"]
    assert found.pair.tolist() == [0, 0, 1, 1]
    torch.testing.assert_close(found.log_likelihood.exp(), torch.tensor([0.3, 0.6, 0.8, 0.5]))


def test_another_answer_asks_another_question() -> None:
    found = _make().sample(toy_images(2), ["no", "no"], 1, Sampling())
    assert found.text == ["zero", "two"]


def test_the_best_question_is_chosen_among_the_proposals_themselves() -> None:
    reranked = _make()
    found = reranked.sample(toy_images(1), ["yes"], 5, Beam(size=3))
    assert found.text == WORDS[:5]
    assert found.log_likelihood.argmax() == 4
    assert isinstance(reranked.questioner.strategies[0], Sampling)  # type: ignore[attr-defined]


def test_given_questions_are_scored_by_both_models() -> None:
    rows = toy_images(2).select(torch.tensor([0, 0, 1]))
    found = _make().log_likelihood(rows, ["yes", "no", "maybe"], ["two", "two", "one"])
    expected = [-2 + torch.tensor(0.3).log(), -2 + torch.tensor(0.7).log()]
    torch.testing.assert_close(found[:2], torch.stack(expected))
    # An answer that the VQA model does not know.
    torch.testing.assert_close(found[2], -1 + torch.tensor(1e-12).log())


def test_the_ranking_of_pools_chooses_the_number_of_z() -> None:
    """The generator gets the number; the VQA model adds to its values, not to their errors."""
    reranked = _make()
    assert isinstance(reranked, EstimatesLikelihood)
    found = reranked.likelihood(toy_images(1), ["yes"], ["two"], 4)
    torch.testing.assert_close(found.value[0], -2 + torch.tensor(0.3).log())
    assert found.standard_error is not None
    assert float(found.standard_error[0]) == pytest.approx(0.4)
