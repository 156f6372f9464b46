"""Validation and test splits that are disjoint images of one official file."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ivqa.data import DataError, DividedVQA, VQADataset
from ivqa.store.digests import digest

IMAGES = range(1, 13)  # with three questions each


@pytest.fixture
def root(roots: Any) -> Path:
    """VQA 1.0 with twelve images in val2014, whose questions are mixed."""
    for split, offset in (("train2014", 0), ("val2014", 100)):
        ids = [offset + image for _ in range(3) for image in IMAGES]
        questions = [roots.question(10 * one + at // 12, one) for at, one in enumerate(ids)]
        annotations = [roots.annotation(one["question_id"], ["yes"] * 10) for one in questions]
        for image in set(ids):
            name = f"COCO_{split}_{image:012d}.png"
            roots.image(roots.root / "images" / split / name, seed=image)
        captions = [{"image_id": one, "id": one, "caption": f"Image {one}."} for one in set(ids)]
        files = {
            f"OpenEnded_mscoco_{split}_questions": {"questions": questions},
            f"mscoco_{split}_annotations": {"annotations": annotations},
            f"annotations/captions_{split}": {"annotations": captions},
        }
        for name, content in files.items():
            (roots.root / name).parent.mkdir(exist_ok=True)
            (roots.root / f"{name}.json").write_text(json.dumps(content))
    return Path(roots.root)


def _images(dataset: VQADataset, stage: str) -> set[int]:
    return set(dataset.split(stage).image_ids.tolist())


def test_an_image_is_in_one_part_with_all_its_questions(root: Path) -> None:
    dataset = DividedVQA(root, val_images=4, test_images=5)
    val, test = _images(dataset, "val"), _images(dataset, "test")
    assert (len(val), len(test)) == (4, 5)
    assert not val & test
    assert val | test < {100 + image for image in IMAGES}
    assert _images(dataset, "train") == set(IMAGES)
    for stage, chosen in (("val", val), ("test", test)):
        split = dataset.split(stage)
        assert split.name == stage
        assert set(np.unique(split.image_ids, return_counts=True)[1]) == {3}
        assert set(split.captions or ()) == chosen
        assert split.require_answers().answers == [["yes"] * 10] * len(split)
        assert split.require_images().open(min(chosen)).size == (8, 8)
        # In the order of the file, and with its ids.
        file = json.loads((root / "OpenEnded_mscoco_val2014_questions.json").read_text())
        own = [one["question_id"] for one in file["questions"] if one["image_id"] in chosen]
        assert split.question_ids.tolist() == own
    assert not dataset.lacks_annotations("test")
    assert len(dataset.split("val2014")) == 36  # the official split is still there


def test_the_draw_depends_on_the_seed_and_the_ids_alone(root: Path) -> None:
    sizes = {"val_images": 4, "test_images": 5}
    order = sorted((100 + one for one in IMAGES), key=lambda one: digest([7, one]))
    dataset = DividedVQA(root, seed=7, **sizes)
    assert _images(dataset, "val") == set(order[:4])
    assert _images(dataset, "test") == set(order[4:9])
    other = DividedVQA(root, seed=8, **sizes)
    assert _images(other, "val") != _images(dataset, "val")
    same = DividedVQA(root, seed=7, **sizes)
    keys = [one.cache_key() for one in (dataset, same, other)]
    assert keys[0] == keys[1] != keys[2]
    # The parts of the paper are recorded: later versions draw the same ones.
    drawn = sorted(range(40504), key=lambda one: digest([0, one]))[:3]
    assert drawn == [37043, 18513, 33226]


def test_the_numbers_of_the_paper_are_the_defaults_and_too_few_images_are_an_error(
    root: Path,
) -> None:
    fault = (
        r"split 'val2014' in .* has questions about 12 images; data\.val_images=5000 and "
        r"data\.test_images=5000 need 10,000: lower them"
    )
    with pytest.raises(DataError, match=fault):
        DividedVQA(root).split("test")
    with pytest.raises(
        DataError, match="split 'val2015' not found: none of OpenEnded_mscoco_val2015"
    ):
        DividedVQA(root, of="val2015").split("test")


KARPATHY = {
    "images": [
        {"cocoid": 103, "split": "val", "filepath": "val2014"},
        {"cocoid": 101, "split": "test", "filepath": "val2014"},
        {"cocoid": 112, "split": "test", "filepath": "val2014"},
        {"cocoid": 104, "split": "restval", "filepath": "val2014"},
        {"cocoid": 5, "split": "train", "filepath": "train2014"},
    ]
}
LINES = {
    "val": "val2014/COCO_val2014_000000000103.jpg\n",
    "test": "val2014/COCO_val2014_000000000101.jpg 101\n\n112\n",
}


@pytest.mark.parametrize("kind", ["karpathy", "ids", "lines"])
def test_a_published_list_chooses_the_images(root: Path, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "list.json"
    if kind == "karpathy":
        file.write_text(json.dumps(KARPATHY))
    elif kind == "ids":
        file.write_text(json.dumps({"val": [103], "test": [101, 112]}))
    else:
        file = tmp_path / "list_{split}.txt"
        for part, lines in LINES.items():
            (tmp_path / f"list_{part}.txt").write_text(lines)
    dataset = DividedVQA(root, split_file=str(file))
    assert _images(dataset, "val") == {103}
    assert _images(dataset, "test") == {101, 112}
    assert dataset.cache_key() != DividedVQA(root).cache_key()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            {"val": [103], "test": [7, 9]},
            "no question about 2 of the 2 images of 'test', such as 7",
        ),
        ({"val": [103], "test": [101, 103]}, "image 103 is in 'val' and in 'test'"),
        ({"val": [], "test": [101]}, "names no image of 'val'"),
        ({"val": ["a"], "test": [101]}, 'must be {"images": [{"cocoid": 9, "split": "val"}]} or'),
        ([103, 101], "with numbers as ids"),
    ],
)
def test_a_list_of_other_images_is_an_error(
    root: Path, tmp_path: Path, content: Any, fault: str
) -> None:
    file = tmp_path / "list.json"
    file.write_text(json.dumps(content))
    with pytest.raises(DataError, match=re.escape(fault)) as error:
        DividedVQA(root, split_file=str(file)).split("val")
    assert str(file) in str(error.value)


def test_a_line_without_id_and_a_missing_list_are_errors(root: Path, tmp_path: Path) -> None:
    dataset = DividedVQA(root, split_file=str(tmp_path / "{split}.txt"))
    with pytest.raises(ValueError, match=r"val\.txt"):
        dataset.split("val")
    (tmp_path / "val.txt").write_text("103\nthe end\n")
    with pytest.raises(DataError, match=r"val\.txt: the line 'the end' does not end with the id"):
        dataset.split("val")
