"""data=hf: small Parquet files in the column layouts of published cards, read with the presets."""

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from PIL import Image

from ivqa.data import DataError, VQASplit
from ivqa.data.formats import hf_datasets
from ivqa.data.formats.aokvqa import question_number
from ivqa.data.formats.hf_datasets import HFDataset
from ivqa.errors import UserError

datasets = pytest.importorskip("datasets")
CONF = Path(__file__).parents[2] / "conf"


def _png(shade: int, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((6, 8, 3), shade, dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def _write(file: Path, rows: list[dict[str, Any]], *, picture: str = "image", **kinds: str) -> None:
    """Writes rows as the cards do: pictures are of type Image, and `kinds` names other types."""
    given = {name: datasets.Value(kind) for name, kind in kinds.items()}
    if picture in rows[0]:
        given[picture] = datasets.Image()
        rows = [{**row, picture: {"bytes": row[picture], "path": None}} for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    whole = datasets.Dataset.from_dict(columns)
    features = whole.features.copy()
    features.update(given)
    file.parent.mkdir(parents=True, exist_ok=True)
    datasets.Dataset.from_dict(columns, features=features).to_parquet(file)


def _write_card(folder: Path, split: str, configs: dict[str, str]) -> None:
    """A card that says in which folder the files of a split of each configuration are."""
    listed = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: {split}\n    path: {place}/{split}-*\n"
        for name, place in configs.items()
    )
    (folder / "README.md").write_text(f"---\nconfigs:\n{listed}---\n")


def _opened(name: str, tmp_path: Path, *overrides: str) -> HFDataset:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = compose(
            "evaluate",
            [f"data={name}", f"data.path={tmp_path / 'set'}", f"artifacts={tmp_path}", *overrides],
        )
    return instantiate(cfg.data)


def _shades(split: VQASplit) -> list[float]:
    images = split.require_images()
    return [np.asarray(images.open(number)).mean() for number in split.image_ids.tolist()]


def test_vqav2(tmp_path: Path) -> None:
    given = [["yes"] * 9 + ["no"], ["2"] * 3 + ["3"] * 7]
    rows = [
        {
            "question_type": "is the",
            "multiple_choice_answer": answers[-1],  # official, and not the most frequent one here
            "answers": [
                {"answer": one, "answer_confidence": "maybe", "answer_id": at}
                for at, one in enumerate(answers, start=1)
            ],
            "image_id": 262148,
            "answer_type": "other",
            "question_id": 262148000 + at,
            "question": f"Is the {at} here?",
            "image": _png(40),
        }
        for at, answers in enumerate(given)
    ]
    _write(tmp_path / "set" / "data" / "validation-00000-of-00001.parquet", rows)
    tests = [{**row, "answers": None, "multiple_choice_answer": None} for row in rows]
    _write(tmp_path / "set" / "data" / "testdev-00000-of-00001.parquet", tests)
    data = _opened("hf_vqav2", tmp_path)
    split = data.split("test")
    assert split.name == "validation"
    assert split.question_ids.tolist() == [262148000, 262148001]
    assert split.image_ids.tolist() == [262148] * 2
    assert split.answers == given
    assert split.main_answers == ["no", "3"]
    assert split.answer_types == ["other"] * 2
    assert split.question_types == ["is the"] * 2
    assert _shades(split) == [40, 40]
    assert len(split.require_images()) == 1
    assert data.lacks_annotations("testdev")
    assert not data.split("testdev").has_answers


def test_gqa_has_questions_and_pictures_apart(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    question = {
        "isBalanced": True, "groups": {"global": None, "local": "06-sun_dark"}, "entailed": "[]",
        "equivalent": "['201307251']", "fullAnswer": "It is dark.", "semanticStr": "select: sky",
    }  # fmt: skip
    ids = [("201307251", "n161313"), ("02930152", "2354786"), ("2930152", "2354786")]
    rows = [
        {"id": one, "imageId": image, "question": "Is it dark?", "answer": "yes", **question}
        for one, image in ids
    ]
    _write(folder / "testdev_balanced_instructions" / "testdev-0.parquet", rows)
    pictures = [("9", 200), ("2354786", 80), ("n161313", 120)]
    shown = [{"id": one, "image": _png(shade, "JPEG")} for one, shade in pictures]
    _write(folder / "testdev_balanced_images" / "testdev-0.parquet", shown)
    names = ("testdev_balanced_instructions", "testdev_balanced_images")
    _write_card(folder, "testdev", {name: name for name in names})
    split = _opened("hf_gqa", tmp_path).split("test")
    assert split.question_ids.tolist() == [201307251, question_number("02930152"), 2930152]
    assert split.image_ids.tolist() == [question_number("n161313"), 2354786, 2354786]
    assert split.answers == [["yes"]] * 3
    assert split.answer_types == ["yes/no"] * 3
    assert _shades(split) == [120, 80, 80]
    assert len(split.require_images()) == 2  # only pictures of questions
    shown = [{"id": "9", "image": _png(1)}]
    _write(folder / "testdev_balanced_images" / "testdev-0.parquet", shown)
    with pytest.raises(DataError, match=r"testdev_balanced_images of .* lacks 2 pictures"):
        _opened("hf_gqa", tmp_path).split("test")


def test_textvqa(tmp_path: Path) -> None:
    row = {
        "image_id": "003a8ae2ef43b901", "question_id": 34602, "question": "What is the brand?",
        "question_tokens": ["what", "is", "the", "brand"], "image": _png(7), "image_width": 8,
        "image_height": 6, "flickr_original_url": "", "flickr_300k_url": "",
        "answers": ["nous les gosses"] * 3 + ["dakota"] * 7, "image_classes": ["Camera"],
        "set_name": "val", "ocr_tokens": ["DAKOTA"],
    }  # fmt: skip
    _write(tmp_path / "set" / "data" / "validation-0.parquet", [row], question_id="int32")
    split = _opened("hf_textvqa", tmp_path).split("val")
    assert split.question_ids.tolist() == [34602]
    assert split.image_ids.tolist() == [question_number("003a8ae2ef43b901")]
    assert split.answers == [row["answers"]]
    assert split.main_answers == ["dakota"]
    assert _shades(split) == [7]


def test_mmbench(tmp_path: Path) -> None:
    common = {"category": "attribute", "source": "x", "L2-category": "y", "comment": "nan",
              "split": "dev"}  # fmt: skip
    rows = [
        {"index": 241, "question": "Which is right?", "hint": "The passage.", "A": "cold",
         "B": "warm", "C": None, "D": None, "answer": "B", "image": _png(20), **common},
        {"index": 252, "question": "Who is it?", "hint": "nan", "A": "A", "B": "Ann", "C": "Bob",
         "D": "nan", "answer": "A", "image": _png(90), **common},
        {"index": 253, "question": "Where is it?", "hint": None, "A": "in", "B": "out", "C": None,
         "D": None, "answer": "A", "image": _png(90), **common},
    ]  # fmt: skip
    _write(tmp_path / "set" / "data" / "dev-0.parquet", rows)
    _write_card(tmp_path / "set", "dev", {"default": "data"})
    split = _opened("hf_mmbench", tmp_path).split("val")
    assert split.questions == ["The passage.\nWhich is right?", "Who is it?", "Where is it?"]
    assert split.multiple_choices == [["cold", "warm"], ["A", "Ann", "Bob"], ["in", "out"]]
    assert split.answers == [["warm"], ["A"], ["in"]]
    assert split.question_types == ["attribute"] * 3
    assert split.image_ids[0] != split.image_ids[1] == split.image_ids[2]
    assert _shades(split) == [20, 90, 90]


def test_pope(tmp_path: Path) -> None:
    rows = [
        {"id": str(at), "question_id": "1", "question": "Is there a snowboard in the image?",
         "answer": answer, "image_source": "COCO_val2014_000000310196", "image": _png(33),
         "category": category}
        for at, (answer, category) in enumerate([("yes", "adversarial"), ("no", "popular")])
    ]  # fmt: skip
    _write(tmp_path / "set" / "data" / "test-0.parquet", rows)
    split = _opened("hf_pope", tmp_path).split("test")
    assert split.question_ids.tolist() == [0, 1]
    assert split.answers == [["yes"], ["no"]]
    assert split.question_types == ["adversarial", "popular"]
    assert set(split.image_ids.tolist()) == {question_number("COCO_val2014_000000310196")}


def test_choices_in_one_column_and_the_position_of_the_right_one(tmp_path: Path) -> None:
    rows = [
        {"text": "What is it?", "options": ["a cat", "a dog"], "label": 1, "photo": _png(1)},
        {"text": "How many?", "options": ["1", "2", "3"], "label": 0, "photo": _png(2)},
    ]
    _write(tmp_path / "set" / "data" / "train-0.parquet", rows, picture="photo")
    columns = "{question:text,multiple_choices:options,main_answer:label,image:photo}"
    split = _opened("hf", tmp_path, f"data.columns={columns}").split("train")
    assert split.answers == [["a dog"], ["1"]]
    assert split.multiple_choices == [row["options"] for row in rows]
    assert split.question_ids.tolist() == [0, 1]
    assert _shades(split) == [1, 2]


def test_text_alone_limits_and_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "set"
    rows = [{"question": f"Is it {at}?", "answer": "yes"} for at in range(30)]
    _write(folder / "data" / "train-0.parquet", rows)
    data = _opened("hf", tmp_path, "data.limit=3", "data.val=null", "data.test=null")
    split = data.split("train")
    assert split.questions == ["Is it 0?", "Is it 1?", "Is it 2?"]
    assert split.images is None
    assert not data.has_images
    first = data.cache_key()
    again = _opened("hf", tmp_path, "data.limit=3", "data.val=null", "data.test=null")
    monkeypatch.setattr(hf_datasets, "_datasets_package", lambda: pytest.fail("read again"))
    assert again.cache_key() == first
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"\.answers: .* no column 'labels'; its columns are"):
        _opened("hf", tmp_path, "data.columns.answers=labels").split("train")
    with pytest.raises(UserError, match=r"split 'validation' .*data\.val"):
        _opened("hf", tmp_path).split("val")
    _write(folder / "data" / "train-0.parquet", [{**rows[0], "answer": "no"}])
    changed = _opened("hf", tmp_path, "data.limit=3", "data.val=null", "data.test=null")
    assert changed.split("train").answers == [["no"]]
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"needs the package datasets: pip install 'ivqa\[datas"):
        _opened("hf", tmp_path, "data.limit=4").split("train")
    with pytest.raises(UserError, match=r"there is no folder .*of Parquet files"):
        HFDataset("./nowhere", cache_dir=str(tmp_path))


def test_an_unusual_picture_becomes_png(tmp_path: Path) -> None:
    row = {"question": "Is it red?", "answer": "no", "image": _png(60, "TIFF")}
    _write(tmp_path / "set" / "data" / "train-0.parquet", [row])
    split = _opened("hf", tmp_path).split("train")
    assert split.require_images().paths[0].suffix == ".png"
    assert _shades(split) == [60]


def test_nan_is_an_answer(tmp_path: Path) -> None:
    rows = [{"question": "Which bread is this?", "answer": one} for one in ("nan", "rye")]
    _write(tmp_path / "set" / "data" / "train-0.parquet", rows)
    split = _opened("hf", tmp_path, "data.val=null", "data.test=null").split("train")
    assert split.answers == [["nan"], ["rye"]]
