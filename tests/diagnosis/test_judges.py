"""Types of beliefs by other VQA models, and their agreement with better types."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis import (
    Belief,
    Judge,
    judge_agreement,
    judge_answers,
    main_answer_share,
    typed_by_judges,
)
from ivqa.diagnosis.beliefs import judges as judges_module
from ivqa.logic import Implication
from ivqa.text.answers import AnswerVocabulary

CAR, DOG = "What color is the car?", "What color is the dog?"
IS_CAR, IS_DOG, IS_SKY = "Is there a car?", "Is there a dog?", "Is the sky visible?"
PRESUPPOSED = {CAR: [IS_CAR, IS_SKY], DOG: [IS_DOG]}
REFERENCES = {(1, "red"): ["Which color has the car?"]}
# p(answer) of a judge about image 1; about image 2 it says the opposite of each yes or no.
CHANCES = {CAR: ("red", 0.75), DOG: ("red", 0.9), IS_CAR: ("yes", 0.875), IS_SKY: ("yes", 0.5625),
           IS_DOG: ("no", 0.75)}  # fmt: skip


class ToyJudge:
    """Gives each question its answer in `chances`, and half of the rest to each other answer."""

    def __init__(self, chances: Mapping[str, tuple[str, float]] = CHANCES, *, closed: bool = True):
        self.chances = chances
        self.answers = AnswerVocabulary(["yes", "no", "red"]) if closed else None
        self.asked: list[tuple[int, str]] = []

    def log_scores(
        self, images: ImageBatch, questions: Sequence[str], answers: list[str] | None = None
    ) -> Tensor:
        assert self.answers is not None
        assert answers is None
        scores = torch.zeros(len(questions), 3)
        for row, (answer, chance) in enumerate(self._given(images, questions)):
            scores[row] = (1 - chance) / 2
            scores[row, self.answers.answers.index(answer)] = chance
        return scores.log()

    def answer(self, images: ImageBatch, questions: Sequence[str]) -> list[str]:
        return [answer.upper() + "." for answer, _ in self._given(images, questions)]

    def _given(self, images: ImageBatch, questions: Sequence[str]) -> list[tuple[str, float]]:
        ids = images.ids[images.index].tolist()
        self.asked += zip(ids, questions, strict=True)
        other = {"yes": "no", "no": "yes", "red": "red"}
        found = [self.chances[text] for text in questions]
        return [
            (a if image == 1 else other[a], p) for image, (a, p) in zip(ids, found, strict=True)
        ]


@pytest.fixture(autouse=True)
def _presuppositions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules of this test, with others that say nothing about relevance."""

    def implications(question: str, answer: str) -> list[Implication]:
        texts = PRESUPPOSED.get(question, [])
        found = [Implication(text, "yes", "presupposition", certain=True) for text in texts]
        return [*found, Implication("Is it absurd?", "yes", "exclusion", certain=True)]

    monkeypatch.setattr(judges_module, "implications", implications)


def _judge(answerer: ToyJudge) -> Judge:
    def images_of(ids: Sequence[int]) -> ImageBatch:
        return ImageBatch(torch.tensor(ids), torch.arange(len(ids)))

    return Judge("toy", answerer, images_of)  # type: ignore[arg-type]


def _belief(question: str, answer: str = "red", image_id: int = 1) -> Belief:
    return Belief(image_id, answer, question, 0.5, -3.0, 0.9, "rl", "irrelevant", "oracle")


def test_the_three_questions_give_type_and_doubt() -> None:
    beliefs = [
        _belief(CAR),  # relevant, right, and the words of the reference
        _belief(CAR, image_id=2),  # no car there
        _belief(CAR, answer="Blue"),  # an answer that the judge does not have
        _belief(DOG),  # it sees no dog, though it calls the dog red
        _belief(IS_SKY, answer="yes"),  # presupposes nothing
        _belief(IS_SKY, answer="no"),
    ]
    answerer = ToyJudge()
    typed = typed_by_judges(beliefs, [_judge(answerer)], REFERENCES)
    kinds = ["rephrase", "irrelevant", "adversarial", "irrelevant", "complementary", "adversarial"]
    assert [belief.type for belief in typed] == kinds
    assert {belief.type_by for belief in typed} == {"judge"}
    # 1 - p(relevant) p(correct); of two presuppositions the less probable one counts.
    doubts = [1 - 0.5625 * 0.75, 1 - 0.0625 * 0.75, 1, 1 - 0.125 * 0.9, 1 - 0.5625, 1 - 0.21875]
    assert [belief.judge_wrong for belief in typed] == pytest.approx(doubts, abs=1e-6)
    assert len(answerer.asked) == len(set(answerer.asked)) + 2  # CAR and IS_SKY of two answers
    # "Blue" is no answer of the judge, which says "red"; the sky is visible to it.
    answers = [None, None, "red", None, None, "yes"]
    assert [belief.judge_answer for belief in typed] == answers
    unjudged = {"type": None, "type_by": None, "judge_wrong": None, "judge_answer": None}
    assert [replace(one, **unjudged) for one in typed] == [
        replace(one, type=None, type_by=None) for one in beliefs
    ]


def test_a_judge_that_writes_its_answers_has_no_probabilities() -> None:
    typed = typed_by_judges([_belief(CAR), _belief(DOG)], [_judge(ToyJudge(closed=False))], {})
    assert [(one.type, one.judge_wrong) for one in typed] == [
        ("complementary", 0.0),
        ("irrelevant", 1.0),
    ]


def test_judges_vote_on_each_question_and_probabilities_break_a_tie() -> None:
    no_car = ToyJudge({**CHANCES, IS_CAR: ("no", 0.5)})  # p(yes) is 0.25
    sure = ToyJudge({**CHANCES, IS_CAR: ("no", 0.9)})  # p(yes) is 0.05
    judges = [_judge(ToyJudge({**CHANCES, IS_SKY: ("yes", 0.9)})), _judge(no_car), _judge(sure)]
    (typed,) = typed_by_judges([_belief(CAR)], judges, {})
    assert typed.type == "irrelevant"
    doubt = 1 - 0.75 * (0.875 + 0.25 + 0.05) / 3
    assert typed.judge_wrong == pytest.approx(doubt, abs=1e-6)
    assert typed_by_judges([_belief(CAR)], judges[:2], {})[0].type == "complementary"  # .875, .25
    assert typed_by_judges([_belief(CAR)], judges[::2], {})[0].type == "irrelevant"  # .875, .05


def test_a_judge_testifies_in_the_order_of_the_beliefs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges_module, "_QUESTIONS_PER_PASS", 2)
    asked = [(2, IS_CAR), (1, DOG), (2, IS_DOG), (1, IS_SKY), (1, CAR)]
    beliefs = [Belief(image, "red", text, 0.5, 0.0, 1.0, "rl") for image, text in asked]
    given = judge_answers(_judge(ToyJudge()), beliefs)
    assert [one.answer for one in given] == ["no", "red", "yes", "yes", "red"]
    expected = [CHANCES[text][1] for _, text in asked]
    assert [one.probability for one in given] == pytest.approx(expected)


def test_the_right_answer_of_judges_is_never_that_of_the_wrong_belief() -> None:
    """Of two judges one agrees with the belief, but the other one is surer."""
    agrees = _judge(ToyJudge({**CHANCES, CAR: ("red", 0.5)}))  # p(yes) is 0.25
    doubts = _judge(ToyJudge({**CHANCES, CAR: ("no", 0.9), IS_SKY: ("yes", 0.9)}))  # p(red) .05
    (typed,) = typed_by_judges([_belief(CAR)], [agrees, doubts], {})
    assert (typed.type, typed.judge_answer) == ("adversarial", "no")


def test_nothing_to_judge() -> None:
    assert typed_by_judges([], [_judge(ToyJudge())], {}) == []
    assert judge_agreement([], []) == {}


def test_agreement_with_better_types() -> None:
    better = ["rephrase", "adversarial", "irrelevant", "complementary", None]
    guessed = ["rephrase", "adversarial", "adversarial", "irrelevant", "irrelevant"]
    first, second = (
        [replace(_belief(CAR), type=kind) for kind in kinds]  # type: ignore[arg-type]
        for kinds in (guessed, better)
    )
    found = judge_agreement(first, second)
    # Two of four types are equal; by chance 1/16 (rephrase), 2/16 (adversarial), 1/16 (irrelevant).
    assert found["agreement"] == 0.5
    assert found["kappa"] == pytest.approx((0.5 - 0.25) / (1 - 0.25))
    # Wrong: 3 of 4 against 2 of 4, with 3 equal; by chance 3/8 + 1/8.
    assert found["wrong"] == 0.75
    assert found["wrong_kappa"] == pytest.approx(0.5)
    assert found["relevant"] == 0.5
    assert found["correct"] == 1.0  # of the two that both call relevant
    same = judge_agreement(second[:1], second[:1])
    assert (same["agreement"], same["kappa"], same["wrong_kappa"]) == (1, 1, 1)


def test_the_share_of_main_answers() -> None:
    asked = [(1, CAR, "red"), (1, IS_CAR, "no"), (2, IS_CAR, "no"), (2, IS_DOG, "Yes.")]
    assert main_answer_share(_judge(ToyJudge()), asked) == 0.75
