"""Answers of basic questions."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ivqa.data import VQASplit
from ivqa.errors import UserError
from ivqa.ranking.bqd_files import read_bqd, read_parquet, write_parquet, write_records
from ivqa.ranking.pools import with_answers, with_main_answers

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


def _split(*, has_answers: bool = True) -> VQASplit:
    """Two questions, which the table below has in another order."""
    answers = [["red"] * 9 + ["blue"], ["2"] * 10] if has_answers else [[], []]
    ids = np.array([7, 3])
    texts = ["Why?", "How many?"]
    return VQASplit("val", ids, ids, texts, answers, [""] * 2, [""] * 2, [""] * 2, has_answers)


def test_a_record_keeps_the_answers_to_its_own_question(tmp_path: Path) -> None:
    """Both are in both files: those of the main question, and those of each basic question."""
    table = _table(["Why?"], ["Where?"]).append_column("question_id", pa.array([3, 7]))
    table = table.append_column("image_id", pa.array([1, 2]))
    table = table.append_column("question", pa.array(["How many?", "Why?"]))
    table = table.append_column("scores", pa.array([[0.5], [0.25]], pa.list_(pa.float32())))
    found = with_answers(table, _Data(), ["train", "val"])  # type: ignore[arg-type]
    found = with_main_answers(found, _split())
    write_parquet(tmp_path / "bqd.parquet", found, {})
    write_records(tmp_path / "bqd.json", found)
    stored, _ = read_parquet(tmp_path / "bqd.parquet")
    records = json.loads((tmp_path / "bqd.json").read_text())
    main = [["2"] * 10, ["red"] * 9 + ["blue"]]
    assert stored["question_answers"].to_pylist() == main
    assert [record["MQ_answers"] for record in records] == main
    assert stored["answers"].to_pylist() == [record["answers"] for record in records]
    assert records[1]["answers"] == [["here"]]
    # Without annotations, and in files of earlier versions, there are none; both are read.
    assert with_main_answers(table, _split(has_answers=False)).equals(table)
    write_records(tmp_path / "old.json", table)
    assert "MQ_answers" not in (tmp_path / "old.json").read_text()
    for name in ("bqd.parquet", "bqd.json", "old.json"):
        assert read_bqd(tmp_path / name)["question"].to_pylist() == ["How many?", "Why?"]
