"""Reads the official JSON files, and reports files that violate the format."""

import gzip
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ivqa.data.dataset import VQADataset
from ivqa.data.json_files import open_json
from ivqa.data.validation import DataError
from ivqa.data.vqa_json import answer_type_of, read_split


def read(root: Path, split: str = "train") -> Any:
    return VQADataset(root).split(split)


def test_annotations_are_joined_by_id_in_the_order_of_the_questions(roots: Any):
    split = read(roots.example(7))
    assert split.question_ids.tolist() == list(range(1000, 1007))
    assert split.image_ids.dtype == np.int64
    assert split.main_answers[0] == split.answers[0][0] == "3"  # 1000 % 6 == 4
    assert split.answers[1] == ["blue"] * 7 + ["yes"] * 3
    assert split.has_answers
    assert split.multiple_choices is None


def test_missing_fields_are_derived(roots: Any):
    answers = [["no", "yes", "no"], ["7"], ["red"]]
    texts = ["Is it red?", "How many, exactly?", "Which?"]
    split = read(
        roots.write(
            "train",
            [roots.question(i, 1, text) for i, text in enumerate(texts)],
            [roots.annotation(i, given) for i, given in enumerate(answers)],
        )
    )
    assert split.main_answers == ["no", "7", "red"]
    assert split.answer_types == ["yes/no", "number", "other"]
    assert split.question_types == ["is it", "how many", "which"]


def test_existing_fields_are_kept(roots: Any):
    fields = {
        "multiple_choice_answer": "maybe",
        "answer_type": "number",
        "question_type": "none of",
    }
    more = {"multiple_choices": ["a", "b"], "extra": None}
    split = read(
        roots.write(
            "train", [roots.question(1, 1) | more], [roots.annotation(1, ["yes"], **fields)]
        )
    )
    assert (split.main_answers, split.answer_types) == (["maybe"], ["number"])
    assert split.question_types == ["none of"]
    assert split.multiple_choices == [["a", "b"]]


def test_a_split_without_annotations_has_columns_of_full_length(roots: Any):
    split = read(roots.write("train", [roots.question(1, 1), roots.question(2, 1)], None))
    assert not split.has_answers
    assert split.answers == [[], []]
    assert split.main_answers == split.answer_types == ["", ""]
    with pytest.raises(DataError, match="split 'train' has no annotations"):
        split.require_answers()


@pytest.mark.parametrize("pack", ["bare", "gz", "zip"])
def test_compressed_files_and_bare_lists_give_the_same_split(roots: Any, pack: str):
    root = roots.example(5, images=False)
    expected = read(root)
    for path in root.glob("*_train.json"):
        text = path.read_bytes()
        path.unlink()
        if pack == "bare":
            path.write_text(json.dumps(next(iter(json.loads(text).values()))))
        elif pack == "gz":
            path.with_suffix(".json.gz").write_bytes(gzip.compress(text))
        else:
            with zipfile.ZipFile(path.with_suffix(".zip"), "w") as archive:
                archive.writestr("folder/inside.json", text)
    found = read(root)
    assert found.questions == expected.questions
    assert found.answers == expected.answers


def test_captions_and_layouts(roots: Any):
    root = roots.example(3)
    captions = [{"image_id": 333, "id": n, "caption": f"caption {n}"} for n in range(2)]
    (root / "captions_train.json").write_text(json.dumps({"images": [], "annotations": captions}))
    (root / "layouts_train.json").write_text(json.dumps({"1000": ["_Find", "_Answer"]}))
    split = read(root)
    assert split.captions == {333: ["caption 0", "caption 1"]}
    assert split.layouts == {1000: ["_Find", "_Answer"]}
    assert read(root, "val").captions is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("yes", "yes/no"),
        ("No", "yes/no"),
        ("2", "number"),
        ("-3.5", "number"),
        ("50%", "number"),
        ("1,000", "number"),
        ("2 dogs", "other"),
        ("two", "other"),
        ("", "other"),
    ],
)
def test_answer_type_of(answer: str, expected: str):
    assert answer_type_of(answer) == expected


NAN = float("nan")


def corrupt(questions: list[Any], annotations: list[Any], case: str) -> None:
    """Changes one record of three questions 1, 2, 3 into an invalid one."""
    match case:
        case "duplicate question":
            questions.append(dict(questions[0]))
        case "duplicate annotation":
            annotations.append(dict(annotations[0]))
        case "annotation without question":
            del questions[1]
        case "question without annotation":
            del annotations[1]
        case "no answers":
            annotations[2]["answers"] = []
        case "answers missing":
            del annotations[2]["answers"]
        case "answers no list":
            annotations[2]["answers"] = "yes"
        case "answer NaN":
            annotations[2]["answers"][1]["answer"] = NAN
        case "id is text":
            questions[0]["question_id"] = "1"
        case "id is bool":
            questions[0]["question_id"] = True
        case "id NaN":
            questions[1]["image_id"] = NAN
        case "id missing":
            del questions[1]["image_id"]
        case "text missing":
            del questions[1]["question"]
        case "text empty":
            questions[1]["question"] = " ?"
        case "text number":
            questions[1]["question"] = 7
        case "record no object":
            questions[1] = [2]
        case "type unknown":
            annotations[0]["answer_type"] = "colour"
        case "main answer null":
            annotations[0]["multiple_choice_answer"] = None
        case "other image":
            annotations[0]["image_id"] = 77
        case "choices":
            questions[2]["multiple_choices"] = ["a", 1]


FAULTS = {
    "duplicate question": "questions_train.json: question 1: question_id: occurs more than once",
    "duplicate annotation": "annotations_train.json: question 1: question_id: occurs more",
    "annotation without question": "annotations_train.json: question 2: question_id: has no quest",
    "question without annotation": "questions_train.json: question 2: question_id: has no annot",
    "no answers": "annotations_train.json: question 3: answers: has no answers; remove",
    "answers missing": "annotations_train.json: question 3: answers: is missing",
    "answers no list": "question 3: answers: must be a list, not 'yes'",
    "answer NaN": "question 3: answers[1].answer: must be text, not NaN",
    "id is text": "questions_train.json: entry 0: question_id: must be an integer, not '1'",
    "id is bool": "questions_train.json: entry 0: question_id: must be an integer, not True",
    "id NaN": "questions_train.json: question 2: image_id: must be an integer, not NaN",
    "id missing": "questions_train.json: question 2: image_id: is missing",
    "text missing": "questions_train.json: question 2: question: is missing",
    "text empty": "questions_train.json: question 2: question: has no words: ' ?'",
    "text number": "questions_train.json: question 2: question: must be text, not 7",
    "record no object": "questions_train.json: entry 1: must be an object, not [2]",
    "type unknown": "question 1: answer_type: must be one of yes/no, number, other, not 'colour'",
    "main answer null": "question 1: multiple_choice_answer: must be text, not None",
    "other image": "annotations_train.json: question 1: image_id: is 77 here, 1 with the text",
    "choices": "question 3: multiple_choices[1]: must be text, not 1",
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_reported_with_file_id_and_field(roots: Any, case: str):
    questions = [roots.question(i, 1) for i in (1, 2, 3)]
    annotations = [roots.annotation(i, ["yes", "no"]) for i in (1, 2, 3)]
    corrupt(questions, annotations, case)
    root = roots.write("train", questions, annotations)
    with pytest.raises(DataError, match=re.escape(FAULTS[case])):
        read(root)


def test_all_problems_are_counted_and_the_first_20_shown(roots: Any):
    questions = [roots.question(i, 1, "" if i < 30 else "What?") for i in range(40)]
    annotations = [roots.annotation(i, []) for i in range(40)]
    with pytest.raises(DataError) as error:
        read(roots.write("train", questions, annotations))
    message = str(error.value)
    assert message.startswith("70 problems in the data, the first 20:")
    assert len(message.splitlines()) == 21


def test_faults_of_both_files_are_reported_together(roots: Any):
    root = roots.example(3, images=False)
    (root / "questions_train.json").write_text('{"questions": [{"question_id": 1,')
    (root / "annotations_train.json").write_text('{"answers": []}')
    with pytest.raises(DataError) as error:
        read(root)
    assert "invalid JSON at line 1, column 34" in str(error.value)
    assert "the file seems cut off" in str(error.value)
    assert "annotations: top-level key is missing; the file holds answers" in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"questions": []}', "questions: is empty"),
        ('{"questions": {}}', r"questions: must be a list, not \{\}"),
        ("3", "top-level key is missing; the file holds 3"),
        ('{"questions":\n [}', "invalid JSON at line 2, column 3"),
    ],
)
def test_files_with_a_wrong_top_level_are_refused(roots: Any, content: str, message: str):
    root = roots.example(3, images=False)
    (root / "questions_train.json").write_text(content)
    with pytest.raises(DataError, match=message):
        read(root)


def test_damaged_archives_are_named(tmp_path: Path):
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(b'{"questions": []}' * 50)[:-12])
    with pytest.raises(DataError, match=r"a\.json\.gz: archive is damaged or cut off"):
        open_json(packed)
    (tmp_path / "b.zip").write_bytes(b"PK no zip")
    with pytest.raises(DataError, match=r"b\.zip: archive is damaged"):
        open_json(tmp_path / "b.zip")
    with zipfile.ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("a.json", "1")
        archive.writestr("b.json", "2")
    with pytest.raises(DataError, match=r"must hold exactly one JSON file, not a\.json, b\.json"):
        open_json(tmp_path / "c.zip")
    (tmp_path / "d.json").write_bytes(b'"\xff"')
    with pytest.raises(DataError, match=r"d\.json: not UTF-8 text"):
        open_json(tmp_path / "d.json")
    with pytest.raises(DataError, match=r"e\.json: file not found"):
        read_split("train", tmp_path / "e.json")
