"""Files of basic question datasets, and pools of basic questions."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from toy_bqd import MAIN, MakeRanking

from ivqa.data import DataError, VQADataset
from ivqa.ranking import (
    general_questions,
    questions_of_answer_type,
    read_bqd,
    scores_of,
    write_parquet,
    write_records,
)


def test_records_are_read_back_unchanged(make: MakeRanking, tmp_path: Path) -> None:
    job = make()
    list(job.run())
    table = job.table()
    write_records(tmp_path / "bqd.json", table)
    first = json.loads((tmp_path / "bqd.json").read_text())[0]
    assert first.keys() == {"image", "question_id", "MQ", "BQ"}
    assert (first["image"], first["MQ"], len(first["BQ"])) == (4, MAIN[-1], 5)
    read = read_bqd(tmp_path / "bqd.json")
    for name in ("question", "basic_questions"):
        assert read[name].to_pylist() == table[name].to_pylist()
    assert np.array_equal(scores_of(read), scores_of(table))
    write_records(tmp_path / "none.json", table.slice(0, 0))
    assert json.loads((tmp_path / "none.json").read_text()) == []


def test_records_of_the_published_code_are_read(tmp_path: Path) -> None:
    basic = [{"question": "how old is the truck ?", "score": 0.2952}, {"question": "b", "score": 0}]
    records = [{"question": "how old is the car ?", "basic": basic}, {"question": "c", "basic": []}]
    (tmp_path / "basic.json").write_text(json.dumps(records))
    table = read_bqd(tmp_path / "basic.json")
    assert table["basic_questions"].to_pylist() == [["how old is the truck ?", "b"], []]
    assert scores_of(table) == pytest.approx(np.array([[0.2952, 0], [0, 0]]))


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ("[", ["invalid JSON"]),
        ("{}", ["must hold a list of records"]),
        ('[7, {"MQ": 3, "BQ": "x"}]', ["record 0", "MQ: must be text, not 3", "BQ: must be a l"]),
        ('[{"MQ": "a", "BQ": [["b", "1"]]}]', ["must hold (text, score), not ['b', '1']"]),
        ('[{"MQ": "a", "BQ": [["b", NaN]]}]', ["must hold (text, score), not ['b', nan]"]),
    ],
)
def test_invalid_records_are_refused(content: str, messages: list[str], tmp_path: Path) -> None:
    (tmp_path / "bqd.json").write_text(content)
    with pytest.raises(DataError) as raised:
        read_bqd(tmp_path / "bqd.json")
    for message in ["bqd.json", *messages]:
        assert message in str(raised.value)


def test_a_parquet_file_without_basic_questions_is_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "other.parquet", pa.table({"answer": ["yes"]}), {})
    with pytest.raises(DataError, match=r"other.parquet holds no basic questions"):
        read_bqd(tmp_path / "other.parquet")


def _root(folder: Path, questions: dict[str, list[tuple[str, str]]]) -> VQADataset:
    for split, asked in questions.items():
        for kind in ("questions", "annotations"):
            records = [
                {"question_id": row, "image_id": 1, "question": text, "answers": [{"answer": said}]}
                for row, (text, said) in enumerate(asked)
            ]
            (folder / f"{kind}_{split}.json").write_text(json.dumps({kind: records}))
    return VQADataset(folder)


def test_pools_hold_each_question_once(tmp_path: Path) -> None:
    asked = [("Is it red?", "yes"), ("What is it?", "a car")]
    more = [("is it red", "no"), ("How many?", "2"), ("Is it big?", "no")]
    dataset = _root(tmp_path, {"train": asked, "val": more})
    everything = ["Is it red?", "What is it?", "How many?", "Is it big?"]
    assert general_questions(dataset, ["train", "val"]) == everything
    assert general_questions(dataset, ["train"]) == everything[:2]
    yes_no = questions_of_answer_type(dataset, ["train", "val"], "yes/no")
    assert yes_no == ["Is it red?", "Is it big?"]
    with pytest.raises(DataError, match=r"no question of train .* type 'number'; choose bqd=gbqd"):
        questions_of_answer_type(dataset, ["train"], "number")
