"""Data roots with unreadable files."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_files import ANNOTATIONS, QUESTIONS, UNREADABLE, encoded, forbidden, nothing, refused

from ivqa.data import VQADataset


def _root(folder: Path) -> Path:
    (folder / "images" / "train").mkdir(parents=True)
    for name, value in (("questions", QUESTIONS), ("annotations", ANNOTATIONS)):
        (folder / f"{name}_train.json").write_text(json.dumps(value))
    (folder / "images" / "train" / "000000000001.png").write_bytes(encoded("PNG"))
    return folder


@pytest.mark.parametrize("spoil", [s for s in UNREADABLE if s not in (nothing, forbidden)])
@pytest.mark.parametrize("kind", ["questions", "annotations", "captions", "layouts"])
def test_data_roots_with_unreadable_files_arerefused(
    kind: str, spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    """The error names the path; the split does not count as one without such a file."""
    file = _root(tmp_path) / f"{kind}_train.json"
    file.unlink(missing_ok=True)
    spoil(file)
    refused(lambda _: VQADataset(tmp_path, val=None).split("train"), file)


@pytest.mark.parametrize("spoil", UNREADABLE)
def test_data_roots_with_unreadable_pictures_arerefused(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    if spoil is forbidden and os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    picture = _root(tmp_path) / "images" / "train" / "000000000001.png"
    other = picture.with_name("000000000002.png")
    other.write_bytes(picture.read_bytes())
    picture.unlink()
    spoil(picture)
    dataset = VQADataset(tmp_path, val=None)
    refused(lambda _: dataset.split("train"), picture, named="image 1")
    assert len(dataset.cache_key()) == 16


def test_a_file_in_place_of_the_picture_folder_isrefused(tmp_path: Path) -> None:
    folder = tmp_path / "images" / "train"
    folder.parent.mkdir()
    folder.write_text("")
    (tmp_path / "questions_train.json").write_text(json.dumps(QUESTIONS))
    refused(lambda _: VQADataset(tmp_path).split("train"), folder)
