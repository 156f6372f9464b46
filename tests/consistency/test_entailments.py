"""Implications from a file."""

import json
from pathlib import Path

import pytest

from ivqa.consistency import AnsweredQuestion, ConsistencyMeasure
from ivqa.data import DataError
from ivqa.errors import UserError

LINE = {
    "image_id": 7,
    "question": "Who  drives?",
    "answer": "Two",
    "implied_question": "Do they drive?",
    "implied_answer": "yes",
}
OWN = [
    AnsweredQuestion(7, "who drives?", "two.", None, 1),
    AnsweredQuestion(8, "who drives?", "2", None, 2),  # of another image
]


def _write(file: Path, *lines: object) -> str:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


def test_what_a_file_names_is_asked_and_compared(tmp_path: Path) -> None:
    others = [
        {**LINE, "answer": "three", "implied_question": "Is it three?"},  # not the model's answer
        {**LINE, "implied_question": "Are there two?", "rule": "count", "consistent": False},
    ]
    file = _write(tmp_path / "more.jsonl", LINE, *others)
    given = {"Do they drive?": "Yes, they do.", "Are there two?": "no"}
    asked: list[tuple[int, str]] = []

    def ask(questions):  # type: ignore[no-untyped-def]
        asked.extend(questions)
        return [AnsweredQuestion(image, text, given.get(text, "no")) for image, text in questions]

    records = ConsistencyMeasure(entailments=file, resamples=10).asked(OWN, ask)
    found = {
        (one.premise.question_id, one.implication.question): (one.implication.rule, consistent)
        for (one, _), consistent in zip(records.implied, records.consistent, strict=True)
    }
    assert found[1, "Do they drive?"] == ("entailed", True)
    assert found[1, "Are there two?"] == ("count", False)
    assert {number for number, text in found if text in given} == {1}
    assert "Is it three?" not in [text for _, text in asked]
    without = ConsistencyMeasure(resamples=10).asked(OWN, ask)
    assert len(records.implied) == len(without.implied) + 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({**LINE, "image_id": "7"}, "line 2: image_id: "),
        ({**LINE, "implied_answer": ""}, "line 2: implied_answer: "),
        ({**LINE, "rule": "a/b"}, "line 2: rule: "),
        ([1], "line 2: the line: "),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path: Path, line: object, message: str) -> None:
    measure = ConsistencyMeasure(entailments=_write(tmp_path / "bad.jsonl", LINE, line))
    with pytest.raises(DataError, match=message):
        measure.asked(OWN, lambda _: None)


def test_a_file_of_other_questions_is_refused(tmp_path: Path) -> None:
    file = _write(tmp_path / "other.jsonl", {**LINE, "image_id": 9})
    with pytest.raises(UserError, match="no line is about a question that was asked"):
        ConsistencyMeasure(entailments=file).asked(OWN, lambda _: None)
