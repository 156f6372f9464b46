"""Files of basic question datasets, and pools of basic questions."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from toy_bqd import MAIN, MakeRanking

from ivqa.data import DataError, VQADataset
from ivqa.ranking import general_questions, questions_of_answer_type
from ivqa.ranking.bqd_files import (
    read_bqd,
    read_parquet,
    read_table,
    scores_of,
    write_parquet,
    write_records,
    write_table,
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


RECORDS = [
    "bqd.json: record 0: must be an object, not 7",
    "bqd.json: record 1: MQ: must be text, not 3",
    "bqd.json: record 1: BQ: must be a list of (text, score), not 'x'",
]


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ("[", ["invalid JSON"]),
        ("{}", ["must hold a list of records"]),
        ('[7, {"MQ": 3, "BQ": "x"}]', RECORDS),
        ("[]", ["must hold a list of records"]),
        ('[{"BQ": []}, {"MQ": "a"}]', ["record 0: MQ: must be text, not None", "record 1: BQ"]),
        (
            '[{"MQ": "a", "BQ": [["b"]]}]',
            ["bqd.json: record 0: BQ: must hold (text, score), not ['b']"],
        ),
        ('[{"MQ": "a", "BQ": [["b", 1, 2]]}]', ["must hold (text, score), not ['b', 1, 2]"]),
        ('[{"MQ": "a", "BQ": [[3, 1]]}]', ["must hold (text, score), not [3, 1]"]),
        ('[{"MQ": "a", "BQ": [["b", true]]}]', ["must hold (text, score), not ['b', True]"]),
        ('[{"MQ": "a", "BQ": ["b1"]}]', ["must hold (text, score), not 'b1'"]),
        ('[{"MQ": "a", "BQ": [{"question": "b"}]}]', ["must hold (text, score), not ['b', None]"]),
        ('[{"MQ": "a", "BQ": [{"score": 1}]}]', ["must hold (text, score), not [None, 1]"]),
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
    with pytest.raises(DataError, match=r"nowhere.parquet: file not found"):
        read_bqd(tmp_path / "nowhere.parquet")


def _table(**columns: pa.Array) -> pa.Table:
    texts, scores = pa.array([["b", "c"], []]), pa.array([[0.5, 0.25], []], pa.list_(pa.float32()))
    whole = {"question": pa.array(["a", "d"]), "basic_questions": texts, "scores": scores}
    return pa.table(whole | columns)


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        (_table().drop(["question"]), "it has no column question"),
        (_table().drop(["basic_questions"]), "it has no column basic_questions"),
        (_table().drop(["scores"]), "it has no column scores"),
        (_table(question=pa.array([1, 2])), "its columns are not texts"),
        (_table(basic_questions=pa.array(["b", "c"])), "its columns are not texts"),
        (_table(basic_questions=pa.array([[1, 2], []])), "its columns are not texts"),
        (_table(scores=pa.array([0.5, 0.25])), "its columns are not texts"),
        (_table(scores=pa.array([[1, 0], []])), "its columns are not texts"),
        (_table(question=pa.array(["a", None])), "a value is missing"),
        (_table(basic_questions=pa.array([["b", "c"], None])), "a value is missing"),
        (_table(basic_questions=pa.array([["b", None], []])), "a value is missing"),
        (_table(scores=pa.array([[0.5, 0.25], None])), "a value is missing"),
        (_table(scores=pa.array([[0.5, None], []])), "a score is not finite"),
        (_table(scores=pa.array([[0.5, np.inf], []])), "a score is not finite"),
        (_table(scores=pa.array([[0.5], [0.25]])), "a row has different numbers"),
    ],
)
def test_a_parquet_file_with_faults_is_refused(table: pa.Table, fault: str, tmp_path: Path) -> None:
    write_table(tmp_path / "bqd.parquet", table)
    with pytest.raises(DataError, match=f"holds no basic questions: {fault}"):
        read_parquet(tmp_path / "bqd.parquet")


def test_a_file_without_an_origin_has_none(tmp_path: Path) -> None:
    write_table(tmp_path / "bqd.parquet", _table())
    table, origin = read_parquet(tmp_path / "bqd.parquet")
    assert (table.equals(_table()), origin) == (True, {})
    without = _table().slice(1)  # no score at all, of which one could be infinite
    write_table(tmp_path / "bqd.parquet", without.replace_schema_metadata({"pandas": "{}"}))
    table, origin = read_parquet(tmp_path / "bqd.parquet")
    assert (table.schema.metadata, origin) == (None, {})
    assert scores_of(table).shape == (1, 0)
    assert scores_of(table[:0]).shape == (0, 0)
    for damaged, message in (("[1]", "the metadata of .*bqd.parquet are"), ("{", "bqd.parquet")):
        write_table(
            tmp_path / "bqd.parquet", _table().replace_schema_metadata({"ivqa.bqd": damaged})
        )
        with pytest.raises(DataError, match=message):
            read_parquet(tmp_path / "bqd.parquet")


def test_the_origin_is_stored_without_regard_to_the_order_of_its_keys(tmp_path: Path) -> None:
    one, other = tmp_path / "one.parquet", tmp_path / "other.parquet"
    write_parquet(one, _table(), {"k": 3, "a": {"é": 1, "d": 2}})
    write_parquet(other, _table(), {"a": {"d": 2, "é": 1}, "k": 3})
    assert read_parquet(one)[1] == {"k": 3, "a": {"é": 1, "d": 2}}
    assert one.read_bytes() == other.read_bytes()
    assert pq.read_metadata(one).row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"dog red", b"fog red", "could not verify page integrity, CRC checksum .*"),
        # Arrow adds a second line to the first of these errors, and a full stop to the other.
        (b"PAR1\x15", b"PAR1\x00", "Couldn't deserialize thrift: TProtocolException: Invalid data"),
        (b"PAR1", b"", "Could not open .* this is not a parquet file"),
    ],
)
def test_a_damaged_file_is_refused(old: bytes, new: bytes, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "bqd.parquet"
    write_table(file, _table(question=pa.array(["Is the dog red?", "Why?"])))
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new))
    with pytest.raises(DataError, match=rf"bqd.parquet is cut short or damaged \({reason}\); d"):
        read_table(file)


def test_a_record_is_a_line_of_json(tmp_path: Path) -> None:
    further = {
        "image_id": pa.array([7, 8]),
        "question_id": pa.array([70, 80]),
        "uncertified": pa.array([False, True]),
        "answers": pa.array([[["ja", "né"], ["x"]], []]),
    }
    scores = pa.array([[0.2952, 1.0], []], pa.list_(pa.float32()))
    write_records(tmp_path / "bqd.json", _table(scores=scores, **further))
    assert (tmp_path / "bqd.json").read_text(encoding="utf-8") == (
        '[\n{"image": 7, "question_id": 70, "MQ": "a", "BQ": [["b", 0.2952], ["c", 1.0]], '
        '"answers": [["ja", "né"], ["x"]]},\n{"image": 8, "question_id": 80, "MQ": "d", "BQ": [], '
        '"answers": [], "uncertified": true}\n]\n'
    )


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
