"""Files of a split, the fingerprint of a data set, and error messages about missing files."""

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ivqa.data.dataset import VQADataset, official_vqa
from ivqa.data.file_patterns import FilePatterns
from ivqa.data.validation import DataError
from ivqa.scenes import ScenesDataset


def test_a_stage_and_its_split_name_give_the_same_split(roots: Any):
    dataset = VQADataset(roots.example(7, ("a", "b")), train="a", val="b", test="b")
    assert dataset.split("train") is dataset.split("a")
    assert dataset.split("val") is dataset.split("test") is dataset.split("b")
    assert dataset.names == ["a", "b"]
    assert dataset.has_images


def test_a_stage_without_split_and_an_ambiguous_name_are_refused(roots: Any):
    dataset = VQADataset(roots.example(3))
    with pytest.raises(DataError, match=r"no test split is set, only train, val; set data\.test"):
        dataset.split("test")
    with pytest.raises(ValueError, match="split 'val' serves as train"):
        VQADataset("anywhere", train="val", val="train")


def test_the_error_for_a_missing_root_names_the_nearest_folder(tmp_path: Path):
    (tmp_path / "data" / "vqa").mkdir(parents=True)
    dataset = VQADataset(tmp_path / "data" / "vqq" / "v2")
    with pytest.raises(DataError) as error:
        dataset.split("train")
    assert f"the nearest folder that does is {tmp_path / 'data'}, which holds vqa/" in str(
        error.value
    )
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file; give the folder"):
        VQADataset(tmp_path / "file").split("train")


def test_the_error_for_an_unknown_split_lists_those_in_the_root(roots: Any):
    root = roots.example(3, ("train", "val2014"))
    path = root / "questions_val2014.json"
    path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    with pytest.raises(DataError) as error:
        VQADataset(root).split("val")
    assert "split 'val' not found" in str(error.value)
    assert str(error.value).endswith("splits there: train, val2014")


@pytest.mark.parametrize(
    ("pattern", "split", "tried"),
    [
        ("quiz_{split}.csv", "val", ["quiz_val.csv"]),
        ("{split}/all.parquet", "val", ["val/all.parquet"]),
        ("quiz", "val", ["quiz.json", "quiz.json.gz", "quiz.zip"]),
        ("v1.0_{split}", "val", ["v1.0_val.json", "v1.0_val.json.gz", "v1.0_val.zip"]),
        ("quiz_v1.0", "val", ["quiz_v1.0.json", "quiz_v1.0.json.gz", "quiz_v1.0.zip"]),
        ("{split}", "val.new", ["val.new.json", "val.new.json.gz", "val.new.zip"]),
        ("{split}", "val.json", ["val.json"]),
    ],
)  # fmt: skip
def test_a_pattern_with_an_ending_names_one_file(pattern: str, split: str, tried: list[str]):
    assert FilePatterns(question_file=pattern).candidates(split)["questions"] == tried


def test_the_constructor_writes_nothing(tmp_path: Path):
    VQADataset(tmp_path / "none")
    ScenesDataset(tmp_path / "cache")
    assert list(tmp_path.iterdir()) == []


def test_the_error_for_text_only_data_lists_the_paths_tried(roots: Any):
    root = roots.example(3, images=False)
    patterns = ["images/{split}/*{image_id:012d}.*", "x/{image_id}.*"]
    dataset = VQADataset(root, files=FilePatterns(image_pattern=patterns))
    split = dataset.split("train")
    assert split.images is None
    assert not dataset.has_images
    tried = f"looked for {root}/images/train/*{{image_id:012d}}.*, {root}/x/{{image_id}}.*"
    with pytest.raises(DataError, match=re.escape(tried)):
        split.require_images()
    with pytest.raises(DataError, match="choose features=none"):
        VQADataset(root, require_images=True).split("train")


def test_the_fingerprint_depends_on_content_only(roots: Any, tmp_path: Path):
    root = roots.example(7)
    first = VQADataset(root).cache_key()
    copy = tmp_path / "elsewhere"
    shutil.copytree(root, copy)
    path = copy / "questions_val.json"
    path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert VQADataset(copy).cache_key() == first
    assert VQADataset(copy, val=None).cache_key() != first
    image = next((copy / "images" / "train").iterdir())
    image.write_bytes(image.read_bytes() + b"\0")
    changed = VQADataset(copy).cache_key()
    assert changed != first
    annotations = copy / "annotations_val.json"
    annotations.write_text(annotations.read_text().replace("blue", "pink", 1))
    assert VQADataset(copy).cache_key() not in (first, changed)


@pytest.mark.parametrize(
    ("version", "multiple_choice", "questions", "annotations"),
    [
        (1, False, "OpenEnded_mscoco_{}_questions", "mscoco_{}_annotations"),
        (1, True, "MultipleChoice_mscoco_{}_questions", "mscoco_{}_annotations"),
        (2, False, "v2_OpenEnded_mscoco_{}_questions", "v2_mscoco_{}_annotations"),
    ],
)
@pytest.mark.parametrize("folder", ["images/{}", "{}"])
def test_official_names(
    roots: Any, version: int, multiple_choice: bool, questions: str, annotations: str, folder: str
):
    root = roots.root
    for split, annotated in (("train2014", True), ("test2015", False)):
        image = root / folder.format(split) / f"COCO_{split}_{9:012d}.jpg"
        roots.image(image)
        record = roots.question(90, 9) | {"multiple_choices": ["a", "b"]}
        (root / f"{questions.format(split)}.json").write_text(json.dumps({"questions": [record]}))
        if annotated:
            content = json.dumps({"annotations": [roots.annotation(90, ["yes"] * 10)]})
            (root / f"{annotations.format(split)}.json").write_text(content)
    dataset = official_vqa(root, version, test="test2015", multiple_choice=multiple_choice)
    train, test = dataset.split("train"), dataset.split("test")
    assert train.require_images().open(9).mode == "RGB"
    assert (train.has_answers, test.has_answers) == (True, False)
    assert train.main_answers == ["yes"]
    assert [dataset.lacks_annotations(stage) for stage in ("train", "test")] == [False, True]
    # Test-dev is a subset of test: its own questions file about the same images.
    whole = root / f"{questions.format('test2015')}.json"
    (root / f"{questions.format('test-dev2015')}.json").write_text(whole.read_text())
    part = official_vqa(root, version, multiple_choice=multiple_choice).split("test-dev2015")
    assert part.require_images().path(9) == test.require_images().path(9)
    assert not part.has_answers


def test_a_missing_split_does_not_count_as_one_without_annotations(roots: Any, tmp_path: Path):
    dataset = VQADataset(roots.example(3))
    assert not dataset.lacks_annotations("absent")
    with pytest.raises(DataError, match="no test split is set"):
        dataset.lacks_annotations("test")
    with pytest.raises(DataError, match="does not exist"):
        VQADataset(tmp_path / "nowhere").lacks_annotations("train")


def test_unknown_official_version():
    with pytest.raises(ValueError, match="no version 2 for multiple choice"):
        official_vqa("root", 2, multiple_choice=True)
    with pytest.raises(ValueError, match="no version 3"):
        official_vqa("root", 3)


def test_scenes_are_generated_once_on_first_use(
    roots: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    calls: list[dict[str, Any]] = []

    def generate(root: Path, **settings: Any) -> Path:
        calls.append(settings)
        return shutil.copytree(roots.example(3, ("train", "val", "test")), root)

    import ivqa.scenes.dataset

    monkeypatch.setattr(ivqa.scenes.dataset, "generate_scenes", generate)
    sizes = {"train": 4, "val": 2, "test": 2}
    dataset = ScenesDataset(tmp_path / "cache", seed=3, images=sizes, balanced=True)
    assert calls == []
    assert len(dataset.split("train")) == 3
    dataset.cache_key()
    assert len(calls) == 1
    assert calls[0]["images"] == sizes
    assert calls[0]["seed"] == 3
    assert calls[0]["balanced"] is True
    other = ScenesDataset(tmp_path / "cache", seed=4, images=sizes, balanced=True)
    assert other.root != dataset.root
