"""Diversity of the questions of a pair: limit cases, and self-BLEU against BLEU."""

import math

import pytest

from ivqa.metrics import bleu, question_diversity, self_bleu
from ivqa.text.tokens import tokenise

QUESTIONS = [
    "What color is the star on the left?",
    "What color is the star on the left of the heart?",
    "Is the star on the left red?",
    "what color is the star on the left",
    "How many hearts are there, how many hearts?",
]


def test_copies_of_one_question_have_no_diversity() -> None:
    same = question_diversity([["Is it red?"] * 10], ["Is it red?"])
    assert same["unique_of_n"] == 1
    assert same["novel"] == 0
    assert same["distinct_1"] == pytest.approx(3 / 30)
    assert same["self_bleu4"] == pytest.approx(1)  # although three words have no 4-gram


def test_different_questions_have_full_diversity() -> None:
    scores = question_diversity([["red", "blue"], ["green", "black"]], ["yellow"])
    assert scores["unique_of_n"] == 2
    assert scores["novel"] == 1
    assert scores["distinct_1"] == 1
    assert scores["self_bleu4"] == pytest.approx(0, abs=1e-6)


def test_case_and_punctuation_do_not_count() -> None:
    assert question_diversity([["Is it red?", "is it red"]])["unique_of_n"] == 1


def test_undefined_values_are_nan() -> None:
    scores = question_diversity([["Is it?"]])
    assert math.isnan(scores["novel"])
    assert math.isnan(scores["self_bleu4"])
    with pytest.raises(ValueError, match="at least one pair"):
        question_diversity([])


def test_self_bleu_is_bleu_against_the_other_questions() -> None:
    expected = [
        bleu([question], [QUESTIONS[:at] + QUESTIONS[at + 1 :]])[3]
        for at, question in enumerate(QUESTIONS)
    ]
    found = self_bleu([tokenise(question) for question in QUESTIONS])
    # The guard SMALL of the corpus metric changes each precision of a sentence by about 1e-9.
    assert found == pytest.approx(expected, abs=1e-4)
    assert question_diversity([QUESTIONS])["self_bleu4"] == pytest.approx(found.mean())


@pytest.mark.parametrize(
    ("questions", "expected"),
    [
        ([[], []], [1, 1]),
        ([[], ["why"]], [0, 0]),
        ([["a", "b"], ["a", "b", "c"]], [math.exp(1 - 3 / 2), math.sqrt(2 / 3 * 1 / 2 * 1e-15)]),
    ],
)
def test_self_bleu_of_very_short_questions(
    questions: list[list[str]], expected: list[float]
) -> None:
    assert self_bleu(questions) == pytest.approx(expected, abs=1e-4)


def test_self_bleu_needs_two_questions() -> None:
    with pytest.raises(ValueError, match="at least 2 questions of a pair, not 1"):
        self_bleu([["why"]])


def test_self_bleu_uses_100_evenly_spaced_pairs() -> None:
    varied, copies = ["red", "blue"], ["red", "red"]
    assert question_diversity([varied, copies] * 50)["self_bleu4"] == pytest.approx(0.5, abs=1e-6)
    many = question_diversity([varied] * 1000 + [copies] * 1000)["self_bleu4"]
    assert many == pytest.approx(0.5, abs=1e-6)
