"""What lmms-eval and VLMEvalKit log, written by hand in their layouts, read as predictions."""

import json
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ivqa.data import DataError, VQASplit
from ivqa.data.results import read_results
from ivqa.vqa.scores import score_answers

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
    monkeypatch.setitem(sys.modules, "openpyxl", None)
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
        (_sample(0, 2, doc={"question_id": 11}), "filtered_resps: must be text, not 2"),
        ({"question_id": True, "answer": "a"}, "line 1: question_id: must be an integer of 64"),
        ({"index": 11, "answer": "yes"}, "line 1: prediction: is missing"),  # the right answer
        ({"question_id": 2**63, "answer": "a"}, "must be an integer of 64 bits or text, not 9223"),
        (
            {"question": "Is it?", "answer": "a", "question_id": 7},
            "question 7: question_id: is not",
        ),
        (
            _sample(0, "a", doc={"question_id": 9}),
            "question 9: question_id: is not in split 'test'",
        ),
        ([1], "line 1: must be an object"),
        ({"question_id": "x", "answer": "a"}, "question x: question_id: is not in split 'test'"),
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
    (tmp_path / "b.tsv").write_text("index\tprediction\n1x\tyes\n11\tno\n")
    with pytest.raises(DataError, match="line 2, question 1x: question_id: is not in split 'test'"):
        read_results(tmp_path / "b.tsv", SPLIT)
    (tmp_path / "c.xlsx").write_bytes(b"not a workbook")
    with pytest.raises(DataError, match=r"c\.xlsx"):
        read_results(tmp_path / "c.xlsx", SPLIT)
    with pytest.raises(DataError, match="file not found"):
        read_results(tmp_path / "none.tsv", SPLIT)


def test_failed_requests_are_no_answers(tmp_path: Path) -> None:
    lines = [_sample(0, [], doc={"question_id": 11}), _sample(1, "two", doc={"question_id": 12})]
    last = _sample(2, "[LMMS_EVAL_REQUEST_FAILED after 5 retries] x", doc={"question_id": 13})
    assert read_results(_lines(tmp_path / "a.jsonl", *lines, last), SPLIT) == [None, "two", None]
    rows = [{"index": 11, "prediction": None}, {"index": 12, "prediction": float("nan")}]
    (tmp_path / "a.json").write_text(json.dumps([*rows, {"index": 13, "prediction": "None"}]))
    assert read_results(tmp_path / "a.json", SPLIT) == [None, None, "None"]
    (tmp_path / "a.tsv").write_text(
        "index\tprediction\n11\tFailed to obtain answer via API. \n12\t\n13\tSorry, I'm closed\n"
    )
    assert read_results(tmp_path / "a.tsv", SPLIT) == [None, None, "Sorry, I'm closed"]
    official = [{"question_id": key, "answer": " "} for key in (11, 12, 13)]
    (tmp_path / "b.json").write_text(json.dumps(official))
    with pytest.raises(DataError, match=r"b\.json: all 3 requests failed, most with empty"):
        read_results(tmp_path / "b.json", SPLIT)


def test_cells_that_a_workbook_changes(tmp_path: Path) -> None:
    """A formula shows another text than was written, and a number has 15 digits."""
    openpyxl = pytest.importorskip("openpyxl")

    def written(*rows: tuple[object, ...]) -> Path:
        book = openpyxl.Workbook()
        for row in (("index", "question_id", "prediction"), *rows):
            book.active.append(row)
        book.save(tmp_path / "a.xlsx")
        return tmp_path / "a.xlsx"

    file = written(("a", "11", "=1+1"), ("b", 12, None), ("c", 13.0, 2.5), (None, None, None))
    assert read_results(file, SPLIT) == [None, None, "2.5"]
    file = written(("a", 11, date(2026, 5, 1)), ("b", 12, "#N/A"), ("c", 13, "5/1"))
    assert read_results(file, SPLIT) == [None, None, "5/1"]
    file = written(("a", 7.178437733643126e18, "yes"))
    with pytest.raises(DataError, match=r"row 2: question_id has more than 15 digits, and Excel"):
        read_results(file, SPLIT)


@pytest.mark.parametrize("number", [11, "11", " 11 ", 11.0, "q11"])
@pytest.mark.parametrize("name", ["question_id", "questionId", "question_index", "index"])
def test_an_id_may_be_a_number_or_a_text(tmp_path: Path, name: str, number: object) -> None:
    rows = [{name: number, "prediction": "a"}, *({name: n, "prediction": "b"} for n in (12, 13))]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    assert read_results(tmp_path / "a.json", SPLIT) == ["a", "b", "b"]
    assert read_results(_lines(tmp_path / "a.jsonl", *rows), SPLIT) == ["a", "b", "b"]
    for suffix, separator in ((".tsv", "\t"), (".csv", ",")):
        pd.DataFrame(rows).to_csv(tmp_path / f"a{suffix}", sep=separator, index=False)
        assert read_results(tmp_path / f"a{suffix}", SPLIT) == ["a", "b", "b"]
    logged = [_sample(0, "a", pope_accuracy={name: number})]
    logged += [_sample(n, "b", pope_accuracy={name: n}) for n in (12, 13)]
    assert read_results(_lines(tmp_path / "b.jsonl", *logged), SPLIT) == ["a", "b", "b"]


def _polls(*questions: tuple[str, int]) -> VQASplit:
    number = len(questions)
    return VQASplit(
        "popular", np.arange(number) + 1, np.array([image for _, image in questions]),
        [text for text, _ in questions], [["yes"]] * number, ["yes"] * number,
        ["yes/no"] * number, ["is"] * number,
    )  # fmt: skip


def test_lines_of_pope_are_matched_by_the_question(tmp_path: Path) -> None:
    polls = _polls(("Is there a dog?", 1), ("Is there a cat?", 1), ("Is there a cup?", 2))
    lines = [{"question": f"is there a {name}", "answer": name} for name in ("cup", "dog", "cat")]
    assert read_results(_lines(tmp_path / "a.jsonl", *lines), polls) == ["dog", "cat", "cup"]
    other = {"question": "Is there a bus?", "answer": "bus"}
    with pytest.raises(DataError, match=r"line 3, question Is there a bus\?: question: is not in"):
        read_results(_lines(tmp_path / "a.jsonl", *lines[:2], other), polls)
    with pytest.raises(DataError, match=r"question 2: of 'popular' has no answer"):
        read_results(_lines(tmp_path / "a.jsonl", *lines[:2]), polls)


def test_equal_questions_of_pope_need_their_order_or_image(tmp_path: Path) -> None:
    polls = _polls(("Is there a dog?", 1), ("Is there a cat?", 1), ("Is there a dog?", 2))
    words = [("cat", 1), ("dog", 1), ("dog", 2)]
    lines = [{"question": f"Is there a {n}?", "answer": f"{n} {at}"} for n, at in words]
    in_order = [lines[1], lines[0], lines[2]]
    wanted = ["dog 1", "cat 1", "dog 2"]
    assert read_results(_lines(tmp_path / "a.jsonl", *in_order), polls) == wanted
    with pytest.raises(DataError, match=r"line 2: question: 'Is there a dog\?' is asked 2 times"):
        read_results(_lines(tmp_path / "a.jsonl", *lines), polls)
    shown = [
        {**line, "image": f"COCO_val2014_{at:012d}.jpg"}
        for line, (_, at) in zip(lines, words, strict=True)
    ]
    assert read_results(_lines(tmp_path / "a.jsonl", *reversed(shown)), polls) == wanted


def test_images_decide_where_all_questions_of_pope_are_equal(tmp_path: Path) -> None:
    polls = _polls(*[("Is there a dog?", image) for image in (1, 2, 3)])
    lines = [
        {"question": "Is there a dog?", "answer": str(at), "image": f"val/COCO_{at:012d}.jpg"}
        for at in (3, 1, 2)
    ]
    assert read_results(_lines(tmp_path / "a.jsonl", *lines), polls) == ["1", "2", "3"]
    lines[0]["image"] = "val/COCO_000000000009.jpg"
    with pytest.raises(DataError, match=r"line 1, question Is there a dog\?: question: is not in"):
        read_results(_lines(tmp_path / "a.jsonl", *lines), polls)


@pytest.mark.parametrize(
    "line",
    [
        {"question_id": 2, "question": "Is there a bus?", "answer": "yes"},
        {"index": "2", "question": "Is there a dog?\nAnswer yes or no.", "prediction": "yes"},
        _sample(0, "yes", doc={"question_id": 2, "question": "Is there a dog?"}),
    ],
)
def test_an_id_with_the_question_of_another_is_reported(
    tmp_path: Path, line: dict[str, object]
) -> None:
    """POPE numbers the questions of each of its three files from 1."""
    polls = _polls(("Is there a dog?", 1), ("Is there a cat?", 1))
    first = {"question_id": 1, "question": "Is there a dog? Answer yes or no.", "answer": "no"}
    file = _lines(tmp_path / "a.jsonl", first, line)
    message = r"line 2, question 2: question: is 'Is there a (bus|dog).*', but question 2 of 'popul"
    with pytest.raises(DataError, match=message):
        read_results(file, polls)
    assert read_results(file, polls, noisy=True) == ["no", "yes"]  # noise changes the words
    reordered = {"question_id": 2, "question": "Cat a there is, is there a dog?", "answer": "yes"}
    assert read_results(_lines(tmp_path / "a.jsonl", first, reordered), polls) == ["no", "yes"]


def test_lines_of_text_are_in_the_order_of_the_questions(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("yes\n3\nno\n")
    assert read_results(tmp_path / "a.txt", SPLIT) == ["yes", "3", "no"]
    (tmp_path / "a.txt").write_text("yes\n3\n")
    with pytest.raises(DataError, match=r"a\.txt: has 2 lines for 3 questions"):
        read_results(tmp_path / "a.txt", SPLIT)


def test_accuracy_by_kind_of_belief() -> None:
    """Three of ten annotators say 2: accuracy .9; two of ten say yes: .6."""
    metrics = score_answers(SPLIT, WANTED)
    # A unanimous answer is compared without normalisation: "Yes." is wrong.
    assert metrics["vqa/belief/rephrase"] == 0
    assert metrics["vqa/belief/adversarial"] == pytest.approx((0.9 + 0.6) / 2)
    assert "polling/accuracy" not in metrics
    assert score_answers(SPLIT, ["yes", "3", "no"])["vqa/belief/rephrase"] == 1
