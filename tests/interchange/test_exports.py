"""Exported files, parsed back by the libraries and rules of the tools that read them."""

import base64
import csv
import io
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from toy_questions import ANSWERS, KINDS, QUESTIONS, levels_of

from ivqa.data import DataError, HFDataset, VQADataset
from ivqa.data.results import read_results
from ivqa.interchange import HuggingFaceDataset, LmmsEvalTasks, QuestionLevels, VLMEvalKitTables
from ivqa.interchange.lmms_eval_functions import vqa_accuracy
from ivqa.interchange.question_levels import drawn
from ivqa.metrics import vqa_accuracies
from ivqa.robustness import GaussianNoise


def _pixels(content: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def test_datasets_loads_the_folder(levels: QuestionLevels, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    HuggingFaceDataset(license="cc0-1.0").write(levels, tmp_path / "set", "tiny")
    loaded = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    assert set(loaded) == {"level_0", "level_1"}
    clean, noisy = loaded["level_0"], loaded["level_1"]
    assert clean["question"] == QUESTIONS
    assert noisy["question"] == [f"{text} Why?" for text in QUESTIONS]
    assert clean["answers"] == ANSWERS
    assert clean["kind"] == KINDS
    assert clean["question_id"] == [100, 101, 102, 103, 104, 105]
    assert clean["image_id"] == [1, 1, 2, 2, 3, 3]
    assert clean["level"] == [0] * 6
    assert noisy["level"] == [1] * 6
    assert isinstance(clean.features["image"], datasets.Image)
    shades = [np.asarray(row["image"].convert("RGB")).mean() for row in clean]
    assert shades == [40, 40, 80, 80, 120, 120]
    card = (tmp_path / "set" / "README.md").read_text()
    info = yaml.safe_load(card.split("---")[1])["dataset_info"]
    assert datasets.Features._from_yaml_list(info["features"]) == clean.features
    assert [split["num_examples"] for split in info["splits"]] == [6, 6]
    assert "2 adversarial" in card


def test_an_exported_data_set_comes_back_equal(levels: QuestionLevels, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    HuggingFaceDataset().write(levels, tmp_path / "set", "tiny")
    data = HFDataset(
        str(tmp_path / "set"), cache_dir=str(tmp_path), train=None, val="level_1", test="level_0"
    )
    read, whole = data.split("test"), levels.split
    for name in ("question_ids", "image_ids"):
        assert getattr(read, name).tolist() == getattr(whole, name).tolist()
    for name in ("questions", "answers", "main_answers", "answer_types", "question_types", "kinds"):
        assert getattr(read, name) == getattr(whole, name), name
    images, given = read.require_images(), whole.require_images()
    for number in (1, 2, 3):
        shown = [np.asarray(one.open(number)) for one in (images, given)]
        np.testing.assert_array_equal(*shown)
    assert images.path(1).read_bytes() == given.path(1).read_bytes()
    assert data.split("val").questions == [f"{text} Why?" for text in QUESTIONS]
    assert data.split("val").answers == whole.answers


def test_vlmevalkit_finds_the_image_of_each_row(levels: QuestionLevels, tmp_path: Path) -> None:
    VLMEvalKitTables(post_prompt=" Briefly.").write(levels, tmp_path, "tiny")
    csv.field_size_limit(1 << 30)
    with (tmp_path / "tiny_level_1.tsv").open(newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    assert [row["question"] for row in rows] == [f"{text} Why? Briefly." for text in QUESTIONS]
    images = {row["index"]: row["image"] for row in rows}
    # VLMEvalKit reads a text of at most 64 characters as the index of the row with the image.
    found = [row["image"] if len(row["image"]) > 64 else images[row["image"]] for row in rows]
    assert sum(len(row["image"]) > 64 for row in rows) == 3
    shades = [_pixels(base64.b64decode(image)).mean() for image in found]
    assert shades == [40, 40, 80, 80, 120, 120]
    assert [row["category"] for row in rows] == [*KINDS[:5], "other"]
    assert [json.loads(row["answers"]) for row in rows] == ANSWERS
    assert [row["answer"] for row in rows] == ["yes", "3", "orange", "blue", "no", "a dog"]


def test_long_ids_survive_a_workbook(root: Path, tmp_path: Path) -> None:
    """VLMEvalKit logs to .xlsx, where a number keeps 15 to 17 digits: those of A-OKVQA have 19."""
    openpyxl = pytest.importorskip("openpyxl")
    for file in root.glob("*_test.json"):
        content = json.loads(file.read_text())
        for record in next(iter(content.values())):
            record["question_id"] += 7178437733643125760
        file.write_text(json.dumps(content))
    VLMEvalKitTables().write(levels_of(root), tmp_path, "tiny")
    table = pd.read_csv(tmp_path / "tiny_level_0.tsv", sep="\t")
    book = openpyxl.Workbook()
    book.active.append(["index", "question_id", "prediction"])
    for index, number, answer in zip(table["index"], table.question_id, table.answer, strict=True):
        # What a workbook does to numbers; texts are kept.
        cells = [float(one) if isinstance(one, np.integer) else one for one in (index, number)]
        book.active.append([*cells, answer])
    book.save(tmp_path / "tiny.xlsx")
    key = VQADataset(tmp_path / "answer_key", train=None, val=None, test="test").split("test")
    assert read_results(tmp_path / "tiny.xlsx", key) == table.answer.tolist()
    images = dict(zip(table["index"], table["image"], strict=True))
    assert all(len(image) > 64 or len(images[image]) > 64 for image in images.values())


def test_the_functions_of_lmms_eval_run_without_ivqa(
    levels: QuestionLevels, tmp_path: Path
) -> None:
    LmmsEvalTasks(post_prompt=" Briefly.").write(levels, tmp_path, "tiny")
    document = {**levels.records(1)[1], "question": "How many?"}
    code = (
        "import json, sys, utils\n"
        "assert not any(name.startswith('ivqa') for name in sys.modules)\n"
        "doc = json.loads(sys.argv[1])\n"
        "text = utils.doc_to_text(doc, {'pre_prompt': 'Q: ', 'post_prompt': ' Briefly.'})\n"
        "print(json.dumps([text, utils.process_results(doc, ['Two.'])]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(document)],
        cwd=tmp_path, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    text, scored = json.loads(done.stdout)
    assert text == "Q: How many? Briefly."
    assert scored["vqa_accuracy"] == pytest.approx(0.6)
    kept = {"question_id": 101, "image_id": 1, "kind": "adversarial", "level": 1}
    assert scored["submission"] == {**kept, "answers": ANSWERS[1], "answer": "Two."}
    group = yaml.safe_load((tmp_path / "tiny.yaml").read_text())
    assert group == {"group": "tiny", "task": ["tiny_level_0", "tiny_level_1"]}
    assert "process_results: !function" in (tmp_path / "tiny_level_1.yaml").read_text()


def test_the_accuracy_of_the_exported_task_is_ours() -> None:
    rng = random.Random(0)
    words = ["yes", "Yes", "no", "two", "2", "a dog", "dog", "dog.", "none", "0", " red\n", "red"]
    given = [rng.choices(words[:k], k=n) for n in (1, 3, 5, 10, 10, 10) for k in (1, 2, 6, 12)]
    cases = [(answer, answers) for answers in given for answer in words]
    expected = vqa_accuracies([one for one, _ in cases], [answers for _, answers in cases])
    assert [vqa_accuracy(*case) for case in cases] == pytest.approx(expected.tolist(), abs=1e-6)
    assert 0 < expected.mean() < 1


def test_noise_on_images_reaches_the_files(root: Path) -> None:
    noise = GaussianNoise(levels=1, seed=3)
    clean = levels_of(root, QUESTIONS)
    noisy = QuestionLevels(clean.dataset, clean.split, clean.questions, noise, clean.console)
    for (record, _, content), (_, _, before) in zip(
        noisy.with_images(1), noisy.with_images(0), strict=True
    ):
        picture = Image.fromarray(_pixels(before))
        wanted = np.asarray(noise.disturbed_image(picture, record["image_id"], 1))
        np.testing.assert_array_equal(_pixels(content), wanted)
        assert (wanted != _pixels(before)).any()


def test_an_exported_image_is_the_one_that_ivqa_sees(root: Path) -> None:
    levels = levels_of(root)
    file = levels.split.require_images().path(1)
    Image.fromarray(np.full((8, 10, 2), (0, 51), dtype=np.uint8)).save(file)
    content = next(iter(levels.with_images(0)))[2]
    assert (_pixels(content) == 204).all()  # a fifth of black on white


def test_the_answer_key_reads_back(levels: QuestionLevels, tmp_path: Path) -> None:
    VLMEvalKitTables().write(levels, tmp_path, "tiny")
    read = VQADataset(tmp_path / "answer_key", train=None, val=None, test="test").split("test")
    whole = levels.split
    assert read.questions == whole.questions
    assert read.answers == whole.answers
    assert read.kinds == whole.kinds == KINDS
    assert read.question_ids.tolist() == whole.question_ids.tolist()
    assert read.answer_types == whole.answer_types


def test_a_draw_keeps_the_columns_together(levels: QuestionLevels) -> None:
    part = drawn(levels.split, 3, seed=1)
    rows = [QUESTIONS.index(text) for text in part.questions]
    assert len(part) == 3
    assert rows == sorted(rows)
    assert part.question_ids.tolist() == [100 + row for row in rows]
    assert part.answers == [ANSWERS[row] for row in rows]
    assert part.kinds == [KINDS[row] for row in rows]
    assert drawn(levels.split, 9, seed=1) is levels.split
    draws = {tuple(drawn(levels.split, 3, seed).question_ids.tolist()) for seed in range(60)}
    assert len(draws) > 10  # of 20: the draws are random
    assert part.question_ids.tolist() == drawn(levels.split, 3, seed=1).question_ids.tolist()


def test_a_damaged_image_and_missing_images_are_named(root: Path, tmp_path: Path) -> None:
    levels = levels_of(root)
    file = root / "images" / "test" / "000000000002.png"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(ValueError, match=r"000000000002\.png: image 2 cannot be read"):
        VLMEvalKitTables().write(levels, tmp_path / "out", "tiny")
    assert not list((tmp_path / "out").glob("*.tsv"))
    for image in (root / "images" / "test").iterdir():
        image.unlink()
    (root / "images" / "test").rmdir()
    with pytest.raises(DataError, match="has no images; looked for"):
        HuggingFaceDataset().write(levels_of(root), tmp_path / "out", "tiny")
