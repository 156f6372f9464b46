"""What lmms-eval and VLMEvalKit log, written by hand in their layouts, read as predictions."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ivqa.data import DataError, VQASplit
from ivqa.data.results import read_results
from ivqa.vqa.benchmark import score_answers

SPLIT = VQASplit(
    "test", np.array([11, 12, 13]), np.array([1, 1, 2]), ["Is it?", "How many?", "Is it red?"],
    [["yes"] * 10, ["2"] * 3 + ["3"] * 7, ["no"] * 8 + ["yes"] * 2], ["yes", "3", "no"],
    ["yes/no", "number", "yes/no"], ["is it", "how many", "is it"],
    kinds=["rephrase", "adversarial", "adversarial"],
)  # fmt: skip
WANTED = ["Yes.", "two", "yes"]


def _lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return path


def _sample(doc_id: int, answer: object, **more: object) -> dict[str, object]:
    """A line of --log_samples of lmms-eval 0.7."""
    return {
        "doc_id": doc_id, "target": "yes", "filtered_resps": answer, "token_counts": [None],
        "doc_hash": "0f", "input": "Is it?", **more,
    }  # fmt: skip


def test_a_log_of_lmms_eval(tmp_path: Path) -> None:
    file = _lines(
        tmp_path / "20261125_samples_tiny.jsonl",
        # the order of the log is not that of the split
        _sample(1, "two", vqa_accuracy=0.9, submission={"question_id": 12, "answer": "two"}),
        _sample(0, ["Yes."], pope_accuracy={"question_id": 11, "score": 1.0, "prediction": "yes"}),
        {"doc_id": 2, "doc": {"question_id": 13}, "resps": [["yes"]], "filtered_resps": ["yes"]},
    )
    assert read_results(file, SPLIT) == WANTED


def test_lines_of_the_official_records(tmp_path: Path) -> None:
    records = [
        {"question_id": key, "answer": answer}
        for key, answer in zip((11, 12, 13), WANTED, strict=True)
    ]
    assert read_results(_lines(tmp_path / "a.jsonl", *records), SPLIT) == WANTED
    (tmp_path / "a.json").write_text(json.dumps(records))
    assert read_results(tmp_path / "a.json", SPLIT) == WANTED


def test_tables_of_vlmevalkit(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "index": [13, 11, 12],
            "question": ["Is it\tred?", "Is it?", 'How "many"?'],
            "question_id": [13, 11, 12],
            "prediction": ["yes", "Yes.", "two"],
        }
    )
    table.to_csv(tmp_path / "model_tiny.tsv", sep="\t", index=False)
    assert read_results(tmp_path / "model_tiny.tsv", SPLIT) == WANTED
    table.drop(columns="question_id").to_csv(tmp_path / "only.tsv", sep="\t", index=False)
    assert read_results(tmp_path / "only.tsv", SPLIT) == WANTED
    (tmp_path / "rows.json").write_text(json.dumps(table.to_dict("records")))
    assert read_results(tmp_path / "rows.json", SPLIT) == WANTED


def test_a_workbook_of_vlmevalkit(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    table = pd.DataFrame({"index": [11, 12, 13], "prediction": ["NA", "none", 2]})
    table.to_excel(tmp_path / "model_tiny.xlsx", index=False)
    assert read_results(tmp_path / "model_tiny.xlsx", SPLIT) == ["NA", "none", "2"]


def test_a_workbook_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*arguments: object, **more: object) -> None:
        raise ImportError("Missing optional dependency 'openpyxl'.")

    monkeypatch.setattr(pd, "read_excel", absent)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(
        DataError, match=r"a\.xlsx: reading .xlsx files needs openpyxl; pip install"
    ):
        read_results(tmp_path / "a.xlsx", SPLIT)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (_sample(0, "yes"), "line 1: question_id: is missing; run a task that task=export wrote"),
        (_sample(0, ["a", "b"], doc={"question_id": 11}), "line 1: has 2 answers; run lmms-eval"),
        (
            _sample(0, "[LMMS_EVAL_REQUEST_FAILED after 5 retries] x", doc={"question_id": 11}),
            "line 1: the request failed",
        ),
        (_sample(0, None, doc={"question_id": 11}), "question 11: answer: must be text, not None"),
        (
            _sample(0, "a", doc={"question_id": 9}),
            "question 9: question_id: is not in split 'test'",
        ),
        ([1], "line 1: must be an object"),
        ({"question_id": "x", "answer": "a"}, "line 1: question_id: must be an integer, not 'x'"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read_results(_lines(tmp_path / "log.jsonl", line), SPLIT)
    assert message in str(caught.value)
    assert "log.jsonl" in str(caught.value)


def test_bad_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "cut.jsonl").write_text('{"question_id": 11, "answer": "yes"}\n{"question_id"')
    with pytest.raises(DataError, match=r"cut\.jsonl, line 2: invalid JSON"):
        read_results(tmp_path / "cut.jsonl", SPLIT)
    (tmp_path / "a.tsv").write_text("index\tquestion\n11\tIs it?\n")
    with pytest.raises(
        DataError, match=r"must have the columns question_id .*it has index, question"
    ):
        read_results(tmp_path / "a.tsv", SPLIT)
    (tmp_path / "b.tsv").write_text(
        "index\tprediction\n1x\tyes\n11\tFailed to obtain answer via API.\n"
    )
    with pytest.raises(DataError) as caught:
        read_results(tmp_path / "b.tsv", SPLIT)
    assert "line 2: question_id: must be an integer, not '1x'" in str(caught.value)
    assert "line 3: the request failed" in str(caught.value)
    (tmp_path / "c.xlsx").write_bytes(b"not a workbook")
    with pytest.raises(DataError, match=r"c\.xlsx"):
        read_results(tmp_path / "c.xlsx", SPLIT)
    with pytest.raises(DataError, match="file not found"):
        read_results(tmp_path / "none.tsv", SPLIT)


def test_accuracy_by_kind_of_belief() -> None:
    """Three of ten annotators say 2: accuracy .9; two of ten say yes: .6."""
    metrics = score_answers(SPLIT, WANTED)
    # A unanimous answer is compared without normalisation: "Yes." is wrong.
    assert metrics["vqa/belief/rephrase"] == 0
    assert metrics["vqa/belief/adversarial"] == pytest.approx((0.9 + 0.6) / 2)
    assert "polling/accuracy" not in metrics
    assert score_answers(SPLIT, ["yes", "3", "no"])["vqa/belief/rephrase"] == 1
