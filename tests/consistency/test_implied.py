"""Which implied questions are asked: once an image, certain ones first, within the budgets."""

import pytest

from ivqa.consistency import AnsweredQuestion, affordable, implied_by
from ivqa.consistency.implied import agrees, question_number
from ivqa.logic import Implication


def _implication(question: str, answer: str, certain: bool = True) -> Implication:
    return Implication(question, answer, "rule" if certain else "likely", certain)


FOLLOWS = {
    ("A?", "yes"): [
        _implication("one?", "yes"),
        _implication("two?", "2", certain=False),
        _implication("B?", "no"),
    ],
    ("B?", "no"): [
        _implication("ONE?", "Yes"),
        _implication("two?", "2"),
        _implication("one?", "no", certain=False),
        _implication("three?", "yes"),
    ],
}


@pytest.fixture(autouse=True)
def _rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ivqa.consistency.implied.implications",
        lambda question, answer: FOLLOWS.get((question, answer), []),
    )
    monkeypatch.setattr(
        "ivqa.consistency.implied.follow_ups",
        lambda question, answer: ["four?", "One?"] if question == "C?" else [],
    )


def _asked(image: int, question: str, answer: str, number: int) -> AnsweredQuestion:
    return AnsweredQuestion(image, question, answer, None, number)


OWN = [
    _asked(7, "A?", "Yes.", 1),
    _asked(8, "A?", "yes", 2),
    _asked(7, "B?", "no", 3),
    _asked(7, "C?", "red", 4),
]


def test_a_question_is_asked_once_an_image_and_not_if_the_data_set_asks_it() -> None:
    implied = implied_by(OWN)
    lines = [
        (
            one.premise.question_id,
            one.implication.question,
            one.implication.answer,
            one.implication.certain,
        )
        for one in implied.questions
    ]
    # "two?" is a certain question of premise 3, and only a likely one of premise 1. That B must be
    # "no" is compared on image 7, where the data set asks B, and asked on image 8.
    assert lines == [
        (1, "one?", "yes", True),
        (3, "two?", "2", True),
        (1, "B?", "no", True),
        (3, "one?", "no", False),
        (3, "three?", "yes", True),
        (2, "one?", "yes", True),
        (2, "two?", "2", False),
        (2, "B?", "no", True),
    ]
    # Certain ones first, then those that follow up "C?", then likely ones.
    assert affordable(implied.wanted, OWN, 10) == [
        (7, "one?"),
        (7, "two?"),
        (7, "three?"),
        (7, "four?"),
        (8, "one?"),
        (8, "B?"),
        (8, "two?"),
    ]
    assert implied.covered == [True, True, True, False]


_OF_8 = [(8, "one?"), (8, "B?"), (8, "two?")]


@pytest.mark.parametrize(
    ("most", "budget", "expected"),
    [
        # Image 7: one (first turn of its premise), then two and three (second and fourth).
        # Image 8: one and B are certain, and come before two.
        (2, None, [(7, "one?"), (7, "two?"), (8, "one?"), (8, "B?")]),
        (1, None, [(7, "one?"), (8, "one?")]),
        # "four?" follows up; "two?" about image 8 is likely alone.
        (3, None, [*((7, one) for one in ("one?", "two?", "three?")), *_OF_8]),
        (4, None, [*((7, one) for one in ("one?", "two?", "three?", "four?")), *_OF_8]),
        (10, 3, [(7, "one?"), (7, "two?"), (8, "one?")]),
        (10, 4, [(7, "one?"), (7, "two?"), (8, "one?"), (8, "B?")]),
        (10, 5, [(7, "one?"), (7, "two?"), (7, "three?"), (8, "one?"), (8, "B?")]),
    ],
)
def test_budgets_keep_certain_questions_and_give_images_equal_turns(
    most: int, budget: int | None, expected: list[tuple[int, str]]
) -> None:
    for wanted in (implied_by(OWN).wanted, implied_by(OWN, max_questions=most).wanted):
        assert affordable(wanted, OWN, most, budget) == expected


def test_earlier_rounds_count_for_the_budgets() -> None:
    known = [*OWN, AnsweredQuestion(7, "one?", "no"), AnsweredQuestion(7, "two?", "no")]
    wanted = implied_by(OWN).wanted
    assert affordable(wanted, known, 2) == [(8, "one?"), (8, "B?")]
    assert affordable(wanted, known, 3, budget=4) == [(8, "one?"), (8, "B?")]
    assert affordable(wanted, known, 3, budget=2) == []


@pytest.mark.parametrize(
    ("answer", "implied", "expected"),
    [
        ("yes", "yes", True),
        ("Yes, there is a car.", "yes", True),
        ("no there is not", "no", True),
        ("No.", "yes", False),
        ("red", "yes", False),
        ("no parking", "no", False),
        ("two", "2", True),
        ("a red car", "red car", True),
        ("none", "0", True),
        ("", "no", False),
    ],
)
def test_answers_are_compared_after_normalisation(
    answer: str, implied: str, expected: bool
) -> None:
    assert agrees(answer, implied) == expected


def test_numbers_of_questions_depend_on_image_and_text_alone() -> None:
    number = question_number(7, "Is there a car?")
    assert number == question_number(7, " is  there a Car?") < 2**52
    assert len({number, question_number(8, "Is there a car?"), question_number(7, "cat?")}) == 3
