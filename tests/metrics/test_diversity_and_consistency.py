"""Diversity counts what differs; consistency counts what the oracle accepts."""

import pytest

from ivqa.data.scenes import Judgement
from ivqa.metrics import oracle_consistency, question_diversity, verdict


def test_copies_of_one_question_have_no_diversity() -> None:
    same = question_diversity([["Is it red?"] * 10], ["Is it red?"])
    assert same["unique"] == 1
    assert same["novel"] == 0
    assert same["distinct_1"] == pytest.approx(3 / 30)


def test_all_different_questions_have_all_of_it() -> None:
    scores = question_diversity([["red", "blue"], ["green", "black"]], ["yellow"])
    assert scores["unique"] == 2
    assert scores["novel"] == 1
    assert scores["distinct_1"] == 1


def test_case_and_punctuation_are_no_difference() -> None:
    assert question_diversity([["Is it red?", "is it red"]])["unique"] == 1


def test_novelty_needs_training_questions() -> None:
    assert "novel" not in question_diversity([["Is it?"]])
    with pytest.raises(ValueError, match="at least one pair"):
        question_diversity([])


@pytest.mark.parametrize(
    ("judgement", "expected"),
    [
        (Judgement(False), "not understood"),
        (Judgement(True, False), "false premise"),
        (Judgement(True, True, "red", frozenset({"red"})), "other answer"),
        (Judgement(True, True, "blue", frozenset({"blue", "navy"})), "consistent"),
    ],
)
def test_verdicts(judgement: Judgement, expected: str) -> None:
    assert verdict(judgement, "blue") == expected


def test_shares_are_nested() -> None:
    shares = oracle_consistency(["consistent"] * 2 + ["other answer"] + ["not understood"])
    assert shares == {"understood": 0.75, "true_premise": 0.75, "consistent": 0.5}
    with pytest.raises(ValueError, match="'perhaps' is no verdict"):
        oracle_consistency(["perhaps"])
