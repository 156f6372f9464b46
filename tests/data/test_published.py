"""Readers of VizWiz, OK-VQA, A-OKVQA and Visual7W on small files of the official layouts."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from ivqa.data import DataError, VQADataset
from ivqa.data.file_patterns import QUESTION_FILES
from ivqa.data.formats import json_stream
from ivqa.data.formats.aokvqa import question_number
from ivqa.data.formats.json_stream import entries

CONF = Path(__file__).parents[2] / "conf" / "data"


def opened(choice: str, root: Path, **more: Any) -> VQADataset:
    """The data set as `data=CHOICE data.root=ROOT` opens it."""
    cfg = OmegaConf.load(CONF / f"{choice}.yaml")
    dataset: VQADataset = instantiate(
        OmegaConf.merge({"data": cfg}, {"data": {"root": str(root)}}).data, **more
    )
    return dataset


def dump(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def answers_of(*texts: str) -> list[dict[str, str]]:
    return [{"answer": text, "answer_confidence": "yes"} for text in texts]


VIZWIZ = [
    {
        "image": "VizWiz_val_00000042.jpg",
        "question": "What is this?",
        "answers": answers_of(*["unanswerable"] * 6, *["bottle"] * 4),
        "answer_type": "unanswerable",
        "answerable": 0,
    },
    {
        "image": "VizWiz_val_00000007.jpg",
        "question": "Is this light on or off, please?",
        "answers": answers_of(*["on"] * 9, "yes"),
        "answer_type": "other",
        "answerable": 1,
    },
]


def test_vizwiz(tmp_path: Path, roots: Any):
    dump(tmp_path / "Annotations" / "val.json", VIZWIZ)
    for number in (42, 7):
        roots.image(tmp_path / "images" / "val" / f"VizWiz_val_{number:08d}.png", number)
    split = opened("vizwiz", tmp_path).split("val")
    assert split.question_ids.tolist() == split.image_ids.tolist() == [42, 7]
    assert split.questions == ["What is this?", "Is this light on or off, please?"]
    assert split.answers[0] == ["unanswerable"] * 6 + ["bottle"] * 4
    assert split.main_answers == ["unanswerable", "on"]
    assert split.answer_types == ["other", "other"]
    assert split.extras == {
        "image": ["VizWiz_val_00000042.jpg", "VizWiz_val_00000007.jpg"],
        "answer_type": ["unanswerable", "other"],
        "answerable": [0, 1],
    }
    assert split.question_types == ["what is", "is this"]
    assert split.require_images().path(7).name == "VizWiz_val_00000007.png"


def test_a_photograph_of_another_split_is_reported(tmp_path: Path, roots: Any):
    """The id is the number alone: VizWiz_train_00000007 is another photograph than ..._val_..."""
    dump(tmp_path / "Annotations" / "val.json", VIZWIZ)
    roots.image(tmp_path / "images" / "val" / "VizWiz_val_00000042.png")
    roots.image(tmp_path / "images" / "val" / "VizWiz_train_00000007.png")
    message = r"val\.json: image 7: VizWiz_val_00000007\.jpg: is VizWiz_train_00000007\.png in"
    with pytest.raises(DataError, match=message):
        opened("vizwiz", tmp_path).split("val")


@pytest.mark.parametrize("number", [2**63, 10**30])
def test_ids_of_more_than_64_bits_are_reported(tmp_path: Path, roots: Any, number: int):
    record = VIZWIZ[0] | {"image": f"VizWiz_val_{number}.jpg"}
    dump(tmp_path / "Annotations" / "val.json", [record])
    with pytest.raises(DataError, match=r"val\.json: .*: question_id: must fit 64 bits"):
        opened("vizwiz", tmp_path).split("val")
    dump(tmp_path / "Annotations" / "val.json", VIZWIZ)
    roots.image(tmp_path / "images" / "val" / f"VizWiz_val_{number}.png")
    with pytest.raises(DataError, match=rf"{number}\.png: the number in its name has more than 64"):
        opened("vizwiz", tmp_path).split("val")
    dump(tmp_path / "aokvqa_v1p0_train.json", [AOKVQA | {"image_id": number}])
    with pytest.raises(
        DataError, match=r"image_id: must be an integer of 64 bits, not (9223|1000)"
    ):
        opened("aokvqa", tmp_path).split("train")


def test_the_test_split_of_vizwiz_has_no_answers(tmp_path: Path):
    dump(tmp_path / "Annotations" / "val.json", VIZWIZ)
    only = [{key: record[key] for key in ("image", "question")} for record in VIZWIZ]
    dump(tmp_path / "Annotations" / "test.json", only)
    dataset = opened("vizwiz", tmp_path)
    assert dataset.lacks_annotations("test") is False  # the stage test uses val
    dataset = opened("vizwiz", tmp_path, test="test")
    assert dataset.lacks_annotations("test")
    split = dataset.split("test")
    assert dataset.lacks_annotations("test")
    assert (split.has_answers, split.answers, split.main_answers) == (False, [[], []], ["", ""])
    assert split.answer_types == ["", ""]


def test_okvqa_is_read_like_vqa_1(tmp_path: Path):
    questions = [{"image_id": 51606, "question_id": 516065, "question": "What sport is this?"}]
    answers = [
        {"answer_id": n, "raw_answer": f"{word}s", "answer_confidence": "yes", "answer": word}
        for n, word in enumerate(["race"] * 6 + ["motocross"] * 4, 1)
    ]
    annotation = {
        "image_id": 51606,
        "question_id": 516065,
        "question_type": "four",
        "answer_type": "other",
        "confidence": 3,
        "answers": answers,
    }
    dump(tmp_path / "OpenEnded_mscoco_val2014_questions.json", {"questions": questions})
    dump(tmp_path / "mscoco_val2014_annotations.json", {"annotations": [annotation]})
    split = opened("okvqa", tmp_path).split("test")
    assert split.name == "val2014"
    assert split.main_answers == ["race"]
    assert split.answers == [["race"] * 6 + ["motocross"] * 4]
    assert split.question_types == ["four"]


AOKVQA = {
    "split": "train",
    "image_id": 299207,
    "question_id": "22MexNkBPpdZGX6sxbxVBH",
    "question": "What is the man by the bags awaiting?",
    "choices": ["skateboarder", "train", "delivery", "cab"],
    "correct_choice_idx": 3,
    "direct_answers": ["ride", "ride", "bus", "taxi", "taxi", "taxi", "cab", "bus", "taxi", "car"],
    "difficult_direct_answer": False,
    "rationales": ["A train would not be on the street.", "He waits.", "There are bags."],
}


def test_aokvqa(tmp_path: Path, roots: Any):
    dump(tmp_path / "aokvqa_v1p0_train.json", [AOKVQA])
    roots.image(tmp_path / "images" / "train2017" / "000000299207.png")
    split = opened("aokvqa", tmp_path).split("train")
    assert split.question_ids.tolist() == [question_number("22MexNkBPpdZGX6sxbxVBH")]
    assert split.main_answers == ["taxi"]
    assert split.answers == [AOKVQA["direct_answers"]]
    assert split.multiple_choices == [["skateboarder", "train", "delivery", "cab"]]
    assert split.extras["rationales"] == [AOKVQA["rationales"]]
    assert split.extras["correct_choice_idx"] == [3]
    assert split.extras["question_id"] == ["22MexNkBPpdZGX6sxbxVBH"]
    assert split.require_images().path(299207).name == "000000299207.png"


def v7w_image(image_id: int, split: str, *pairs: tuple[int, str, str]) -> dict[str, Any]:
    return {
        "split": split,
        "filename": f"v7w_{image_id}.jpg",
        "image_id": image_id,
        "qa_pairs": [
            {
                "qa_id": qa_id,
                "image_id": image_id,
                "question": question,
                "answer": answer,
                "type": question.split()[0].lower(),
                "multiple_choices": ["In winter.", "At dawn.", "Never."],
            }
            for qa_id, question, answer in pairs
        ],
    }


def test_visual7w(tmp_path: Path, roots: Any):
    images = [
        v7w_image(
            2360982, "val", (5, "When is it?", "Daytime."), (6, "Why is it?", "Nobody knows.")
        ),
        v7w_image(7, "train", (9, "Who is it?", "A man.")),
    ]
    dump(tmp_path / "dataset_v7w_telling.json", {"dataset": "visual7w", "images": images})
    roots.image(tmp_path / "images" / "v7w_2360982.png")
    roots.image(tmp_path / "images" / "v7w_7.png")
    dataset = opened("visual7w", tmp_path)
    split = dataset.split("val")
    assert split.question_ids.tolist() == [5, 6]
    assert split.image_ids.tolist() == [2360982, 2360982]
    assert split.main_answers == ["Daytime.", "Nobody knows."]
    assert split.question_types == ["when", "why"]
    assert split.multiple_choices is not None
    assert split.multiple_choices[0] == ["At dawn.", "Daytime.", "In winter.", "Never."]
    assert dataset.split("train").questions == ["Who is it?"]
    with pytest.raises(
        DataError, match=r"dataset_v7w_telling\.json: holds no question of .*'test'"
    ):
        dataset.split("test")


def test_all_faults_of_a_file_are_reported_with_their_question(tmp_path: Path):
    faulty = [
        AOKVQA | {"correct_choice_idx": 4},
        AOKVQA | {"question_id": "b", "direct_answers": []},
        AOKVQA | {"question_id": "c", "question": "?!"},
        AOKVQA | {"question_id": "d", "rationales": None, "image_id": "12"},
        {key: AOKVQA[key] for key in ("image_id", "question", "choices")} | {"question_id": "e"},
        AOKVQA | {"question_id": "f"},
        AOKVQA | {"question_id": "f"},
        3,
    ]
    dump(tmp_path / "aokvqa_v1p0_train.json", faulty)
    with pytest.raises(DataError) as error:
        opened("aokvqa", tmp_path).split("train")
    file = "  aokvqa_v1p0_train.json: "
    remedy = "; repair the record or download the file again"
    assert str(error.value).split("\n")[1:] == [
        f"{file}question 22MexNkBPpdZGX6sxbxVBH: correct_choice_idx: must be 0 to 3, not 4{remedy}",
        f"{file}question b: direct_answers: must hold 1 at least, not []{remedy}",
        f"{file}question c: has no words: '?!'; remove it",
        f"{file}question d: image_id: must be an integer, not '12'{remedy}",
        f"{file}question d: rationales: must be a list, not None{remedy}",
        f"{file}question e: has no answer, while others have one; remove it or complete the file",
        f"{file}question f: occurs more than once; remove the copy",
        f"{file}entry 7: must be an object, not 3",
    ]


def test_a_missing_image_and_a_missing_split_are_reported(tmp_path: Path, roots: Any):
    dump(tmp_path / "aokvqa_v1p0_train.json", [AOKVQA])
    roots.image(tmp_path / "images" / "train2017" / "000000000001.png")
    with pytest.raises(DataError, match=r"aokvqa_v1p0_train\.json: image 299207: image_id: has no"):
        opened("aokvqa", tmp_path).split("train")
    with pytest.raises(DataError, match=r"split 'val' not found: .* splits there: train"):
        opened("aokvqa", tmp_path).split("val")


FILES = {
    "vqa_json": "questions_val.json.gz",
    "vqa_v2": "v2_OpenEnded_mscoco_val_questions.json",
    "aokvqa": "aokvqa_v1p0_val.json",
    "visual7w": "dataset_v7w_telling.json",
    "clevr": "questions/CLEVR_val_questions.json",
    "gqa": "questions/val_questions.json",
    "vizwiz": "Annotations/val.json",
}


@pytest.mark.parametrize("fits", FILES)
@pytest.mark.parametrize("choice", FILES)
def test_files_of_another_layout_name_the_data_that_fit(tmp_path: Path, fits: str, choice: str):
    if choice == fits:
        return
    dump(tmp_path / FILES[fits], [])
    if (choice, fits) == ("gqa", "clevr"):
        return  # the names of CLEVR's files are names of GQA's, too
    splits = "all" if fits == "visual7w" else "val"
    with pytest.raises(DataError, match=rf"; its files fit data={fits} \(splits {splits}\)$"):
        opened(choice, tmp_path, train=None, val="absent", test=None).split("absent")


def test_every_layout_is_known():
    for file in CONF.glob("*.yaml"):
        if not file.stem.startswith(("scenes", "hf")):  # those of the hub have columns instead
            name = file.stem.removesuffix("_ivqa")  # another split of the same files
            assert QUESTION_FILES[name] == opened(file.stem, Path(".")).files.question_file


def test_vqa_1_and_okvqa_have_the_same_file_names(tmp_path: Path):
    dump(tmp_path / "OpenEnded_mscoco_val2014_questions.json", [])
    message = r"its files fit data=vqa_v1 \(splits val2014\) or data=okvqa \(splits val2014\)"
    with pytest.raises(DataError, match=message):
        opened("vqa_v2", tmp_path).split("val2014")


def test_the_fingerprint_covers_the_file(tmp_path: Path):
    dump(tmp_path / "aokvqa_v1p0_train.json", [AOKVQA])
    dataset = opened("aokvqa", tmp_path, val=None, test=None)
    first = dataset.cache_key()
    packed = tmp_path / "aokvqa_v1p0_train.json.gz"
    packed.write_bytes(gzip.compress((tmp_path / "aokvqa_v1p0_train.json").read_bytes()))
    (tmp_path / "aokvqa_v1p0_train.json").unlink()
    assert opened("aokvqa", tmp_path, val=None, test=None).cache_key() == first
    dump(tmp_path / "aokvqa_v1p0_train.json", [AOKVQA | {"question": "Who?"}])
    assert opened("aokvqa", tmp_path, val=None, test=None).cache_key() != first


VALUES: list[Any] = [{"a": [1, 'é\\"}]😀'], "b": {"c": None}}, [], "text ]", {"n": -12.5e3}, {}]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_streamed_entries_equal_the_parsed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, ascii_only: bool
):
    monkeypatch.setattr(json_stream, "_BLOCK", block)
    for content in (VALUES, {str(n): value for n, value in enumerate(VALUES)}):
        path = tmp_path / "file.json"
        path.write_text(json.dumps(content, ensure_ascii=ascii_only, indent=1), "utf-8-sig")
        assert list(entries(path)) == [(str(n), value) for n, value in enumerate(VALUES)]
        whole = {"info": {"x": [1]}, "n": 3, "wanted": content, "after": 0}
        path.write_text(json.dumps(whole, ensure_ascii=ascii_only))
        assert list(entries(path, "wanted")) == [(str(n), value) for n, value in enumerate(VALUES)]
    path.write_text("[]")
    assert list(entries(path)) == []
    path.write_text("[12, 345]")
    assert list(entries(path)) == [("0", 12), ("1", 345)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"a": 1}, {"a":', "invalid JSON .*the file seems cut off; download it again"),
        ('[{"a": 1} {"a": 2}]     ', r"invalid JSON \(, or \] expected, not '\{'\); repair"),
        ('{"a": 1, 2: 3}', "entry 1 has no name; repair the file"),
        ('"text"', "must hold a list or an object"),
        ("", "must hold a list or an object"),
        ('["\\ud800"]', "cannot be read"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: str, message: str):
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"{path}: {message}") as error:
        list(entries(path))
    assert "\n" not in str(error.value)


def test_a_missing_key_and_a_damaged_archive_are_reported(tmp_path: Path):
    with pytest.raises(DataError, match="questions: top-level key is missing; the file holds a, b"):
        list(entries(dump(tmp_path / "file.json", {"a": 1, "b": 2}), "questions"))
    path = tmp_path / "file.json.gz"
    path.write_bytes(gzip.compress(b"[1, 2, 3]")[:-9])
    with pytest.raises(DataError, match="download it again"):
        list(entries(path))
    with pytest.raises(DataError, match=r"none\.json"):
        list(entries(tmp_path / "none.json"))
