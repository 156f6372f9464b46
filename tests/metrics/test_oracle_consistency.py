"""Oracle consistency: verdicts, shares of all questions, and errors."""

import pytest

from ivqa.metrics import oracle_consistency, verdict
from ivqa.scenes import Judgement

JUDGED = [
    (Judgement(False), "not understood"),
    (Judgement(True, False), "false premise"),
    (Judgement(True, None), "false premise"),
    (Judgement(True, True, "red", frozenset({"red"})), "other answer"),
    (Judgement(True, True, "blue", frozenset({"blue", "navy"})), "consistent"),
    (Judgement(True, True, "navy", frozenset({"blue", "navy"})), "consistent"),
]
JUDGEMENTS = [judgement for judgement, _ in JUDGED]
SHARES = {"understood": 5 / 6, "true_premise": 3 / 6, "consistent": 2 / 6}


@pytest.mark.parametrize(("judgement", "expected"), JUDGED)
def test_verdicts(judgement: Judgement, expected: str) -> None:
    assert verdict(judgement, "blue") == expected


def test_shares_are_nested_and_of_all_questions() -> None:
    assert oracle_consistency([name for _, name in JUDGED]) == pytest.approx(SHARES)


def test_each_question_is_compared_with_its_own_answer() -> None:
    answers = ["blue", "blue", "blue", "red", "red", "red"]
    verdicts = list(map(verdict, JUDGEMENTS, answers))
    assert oracle_consistency(verdicts)["consistent"] == pytest.approx(1 / 6)


def test_errors_name_the_problem() -> None:
    with pytest.raises(ValueError, match="'perhaps' is not a verdict"):
        oracle_consistency(["perhaps"])
    with pytest.raises(ValueError, match="at least one question"):
        oracle_consistency([])
