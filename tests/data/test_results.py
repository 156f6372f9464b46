"""Result files in the formats of the servers, on small data sets in the official layouts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ivqa.data import ClevrDataset, DataError, GQADataset, VQADataset
from ivqa.data.dataset import official_vqa
from ivqa.data.formats.aokvqa import official_aokvqa
from ivqa.data.formats.vizwiz import official_vizwiz
from ivqa.data.results import read_choices, read_results, results_text

ANSWERS = ["red", "a dog"]


def _gqa(root: Path) -> VQADataset:
    records = {
        name: {"question": "What is it?", "imageId": "n7", "answer": answer, "types": {}}
        for name, answer in zip(("07", "201971873"), ANSWERS, strict=True)
    }
    _dump(root / "questions" / "val_balanced_questions.json", records)
    return GQADataset(root)


def _vizwiz(root: Path) -> VQADataset:
    given = [{"answer": "red", "answer_confidence": "yes"}]
    records = [
        {"image": f"VizWiz_val_{number:08d}.jpg", "question": "What is it?", "answers": given}
        | {"answer_type": "other", "answerable": 1}
        for number in (20, 3)
    ]
    _dump(root / "Annotations" / "val.json", records)
    return official_vizwiz(root)


def _aokvqa(root: Path) -> VQADataset:
    records = [
        {"question_id": name, "image_id": 1, "question": "What is it?", "choices": ["red", "a dog"]}
        | {"direct_answers": ["red"] * 10, "correct_choice_idx": 0, "rationales": []}
        | {"difficult_direct_answer": False}
        for name in ("22MexNkBPpdZGX6sxbxVBH", "2aaaaaaaaaaaaaaaaaaaaa")
    ]
    _dump(root / "aokvqa_v1p0_val.json", records)
    return official_aokvqa(root)


def _clevr(root: Path) -> VQADataset:
    records = [
        {"question_index": number, "image_index": 5, "question": "What is it?", "answer": "red"}
        | {"image_filename": "CLEVR_val_000005.png"}
        for number in (0, 1)
    ]
    _dump(root / "questions" / "CLEVR_val_questions.json", {"questions": records})
    return ClevrDataset(root)


def _okvqa(root: Path) -> VQADataset:
    questions = [{"question_id": n, "image_id": 1, "question": "What is it?"} for n in (14, 7)]
    answers = [{**one, "answers": [{"answer": "red"}]} for one in questions]
    _dump(root / "OpenEnded_mscoco_val2014_questions.json", {"questions": questions})
    _dump(root / "mscoco_val2014_annotations.json", {"annotations": answers})
    return official_vqa(root, 1)


def _dump(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("opened", "wanted"),
    [
        (
            _gqa,
            [
                {"questionId": "07", "prediction": "red"},
                {"questionId": "201971873", "prediction": "a dog"},
            ],
        ),
        (
            _vizwiz,
            [
                {"image": "VizWiz_val_00000020.jpg", "answer": "red"},
                {"image": "VizWiz_val_00000003.jpg", "answer": "a dog"},
            ],
        ),
        (
            _aokvqa,
            {
                "22MexNkBPpdZGX6sxbxVBH": {"direct_answer": "red"},
                "2aaaaaaaaaaaaaaaaaaaaa": {"direct_answer": "a dog"},
            },
        ),
        (
            _clevr,
            [
                {"question_index": 0, "answer": "red"},
                {"question_index": 1, "answer": "a dog"},
            ],
        ),
        (
            _okvqa,
            [{"question_id": 14, "answer": "red"}, {"question_id": 7, "answer": "a dog"}],
        ),
    ],
)
def test_files_of_the_servers(tmp_path: Path, opened: Any, wanted: Any) -> None:
    split = opened(tmp_path).split("val")
    assert json.loads(results_text(split, ANSWERS)) == wanted
    file = tmp_path / "results.json"
    _dump(file, wanted)
    assert read_results(file, split) == ANSWERS
    # In another order, and with the derived ids of an exported answer key.
    turned = dict(reversed(wanted.items())) if isinstance(wanted, dict) else wanted[::-1]
    _dump(file, turned)
    assert read_results(file, split) == ANSWERS
    derived = zip(split.question_ids.tolist(), ANSWERS, strict=True)
    _dump(file, [{"question_id": number, "answer": answer} for number, answer in derived])
    assert read_results(file, split) == ANSWERS
    # A part of the questions keeps its ids.
    assert json.loads(results_text(split.select(np.array([1])), ["a dog"])) == (
        dict([list(wanted.items())[1]]) if isinstance(wanted, dict) else wanted[1:]
    )


def test_the_file_of_aokvqa_has_choices_too(tmp_path: Path) -> None:
    split = _aokvqa(tmp_path).split("val")
    file = tmp_path / "results.json"
    file.write_text(results_text(split, ANSWERS, ["a dog", "red"]))
    first = {"multiple_choice": "a dog", "direct_answer": "red"}
    assert json.loads(file.read_text())["22MexNkBPpdZGX6sxbxVBH"] == first
    assert read_results(file, split) == ANSWERS
    assert read_choices(file, split) == ["a dog", "red"]
    file.write_text(results_text(split, None, ["a dog", "red"]))
    with pytest.raises(DataError, match=r"question 22Mex.*: direct_answer: is missing"):
        read_results(file, split)
    file.write_text(results_text(split, ANSWERS))
    assert read_choices(file, split) is None


@pytest.mark.parametrize(
    ("choice", "fault"),
    [
        *((wrong, "multiple_choice: must be one of the choices, not ") for wrong in (
            2, 2.5, True, ["red"], {"red": 1}, " ", "Error code: 429 - {}", "nan",
            "Failed to obtain answer via API.",
        )),
        (None, "question 22MexNkBPpdZGX6sxbxVBH has no multiple_choice, and other questions have"),
    ],
)  # fmt: skip
def test_choices_are_texts_for_each_question(choice: Any, fault: str, tmp_path: Path) -> None:
    split = _aokvqa(tmp_path).split("val")
    file = tmp_path / "results.json"
    content = json.loads(results_text(split, ANSWERS, ["", "red"]))  # "": the model knows none
    _dump(file, content)
    assert read_choices(file, split) == ["", "red"]
    content["22MexNkBPpdZGX6sxbxVBH"]["multiple_choice"] = choice
    _dump(file, content)
    with pytest.raises(DataError, match=fault):
        read_choices(file, split)


def test_ids_that_could_be_of_two_data_sets(tmp_path: Path) -> None:
    """107 is a published id of GQA, and the derived one of 07."""
    records = {
        name: {"question": f"What is {name}?", "imageId": "7", "answer": "red"}
        for name in ("07", "107")
    }
    _dump(tmp_path / "questions" / "val_balanced_questions.json", records)
    split = GQADataset(tmp_path).split("val")
    _dump(tmp_path / "a.json", [{"questionId": name, "prediction": name} for name in records])
    assert read_results(tmp_path / "a.json", split) == ["07", "107"]
    rows = [{"question_id": number, "answer": str(number)} for number in (107, 1107)]
    _dump(tmp_path / "a.json", rows)
    assert read_results(tmp_path / "a.json", split) == ["107", "1107"]
