"""Answers of basic questions."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ivqa.errors import UserError
from ivqa.ranking import with_answers

SPLITS = {
    "train": (["Is it red?", "Why?", "is it RED"], [["yes"] * 10, ["x", "y"], ["no"] * 10]),
    "val": (["Where?", "Why"], [["here"], ["never"]]),
}


class _Data:
    """Two splits with answers."""

    def split(self, name: str) -> Any:
        questions, answers = SPLITS[name]
        own = SimpleNamespace(questions=questions, answers=answers)
        own.require_answers = lambda: own
        return own


def _table(*rows: list[str]) -> pa.Table:
    return pa.table({"basic_questions": pa.array(rows, pa.list_(pa.string()))})


def test_the_first_question_with_the_same_words_counts() -> None:
    table = _table(["is it red", "Why?"], [], ["Where?"])
    found = with_answers(table, _Data(), ["train", "val"])  # type: ignore[arg-type]
    assert found["answers"].to_pylist() == [[["yes"] * 10, ["x", "y"]], [], [["here"]]]
    other = with_answers(_table(["Why?"]), _Data(), ["val", "train"])  # type: ignore[arg-type]
    assert other["answers"].to_pylist() == [[["never"]]]


def test_an_unknown_question_is_refused() -> None:
    with pytest.raises(UserError, match="'Who\\?' is in none of the splits train"):
        with_answers(_table(["Who?"]), _Data(), ["train"])  # type: ignore[arg-type]
