"""Image folders: files are found by id, and bad files are named."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ivqa.data.dataset import VQADataset
from ivqa.data.images import ImageFiles
from ivqa.data.validation import DataError


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*{image_id:012d}.*", ["COCO_train2014_000000000009.jpg", "000000000010.png"]),
        ("*_{image_id:012d}.*", ["COCO_train2014_000000000009.jpg", "x_000000000010.jpg"]),
        ("COCO_train2014_{image_id:012d}.jpg", ["COCO_train2014_000000000009.jpg"]),
        ("{image_id}.jpg", ["9.jpg", "123456.jpg"]),
        ("image{image_id}_small.png", ["image9_small.png"]),
    ],
)
def test_ids_are_read_from_names_by_a_pattern(
    roots: Any, tmp_path: Path, pattern: str, names: list[str]
):
    for number, name in enumerate(names):
        roots.image(tmp_path / name, seed=number)
    (tmp_path / "README_000000000077.txt").write_text("no image")
    roots.image(tmp_path / ".7.000000000009.png")  # the draft of an interrupted download
    files = ImageFiles.in_folder(tmp_path, pattern)
    assert [path.name for path in files.paths] == names
    assert files.ids[0] == 9
    assert files.path(9).name == names[0]


@pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA", "RGB"])
def test_every_mode_opens_in_rgb(tmp_path: Path, mode: str):
    suffix = "jpg" if mode in ("L", "CMYK") else "png"
    Image.new(mode, (4, 4)).save(tmp_path / f"1.{suffix}")
    image = ImageFiles.in_folder(tmp_path, "{image_id}.*").open(1)
    assert (image.mode, image.size) == ("RGB", (4, 4))


def test_unreadable_images_are_named(roots: Any, tmp_path: Path):
    for image_id in (1, 2, 3):
        roots.image(tmp_path / f"{image_id}.png", size=64)
    files = ImageFiles.in_folder(tmp_path, "{image_id}.png")
    whole = (tmp_path / "1.png").read_bytes()
    (tmp_path / "1.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "2.png").write_text("not an image")
    (tmp_path / "3.png").unlink()
    for image_id, message in ((1, "cannot be read"), (2, "cannot be read"), (3, "is missing")):
        with pytest.raises(ValueError, match=rf"{image_id}\.png: image {image_id} {message}"):
            files.open(image_id)
    with pytest.raises(ValueError, match="image 4 has no file in"):
        files.open(4)


def test_two_files_of_one_image_are_refused(roots: Any, tmp_path: Path):
    roots.image(tmp_path / "1.png")
    roots.image(tmp_path / "1.jpg")
    with pytest.raises(DataError, match="image id 1 has two files"):
        ImageFiles.in_folder(tmp_path, "{image_id}.*")


def test_validation_names_missing_files_and_files_that_are_not_images(roots: Any):
    root = roots.example(7)
    folder = root / "images" / "train"
    (folder / "COCO_train_000000000333.png").unlink()
    (folder / "COCO_train_000000000334.png").write_bytes(b"")
    (folder / "COCO_train_000000000335.png").write_text("<html>404</html>")
    with pytest.raises(DataError) as error:
        VQADataset(root).split("train")
    message = str(error.value)
    assert message.startswith("3 problems")
    assert "questions_train.json: image 333: image_id: has no file in" in message
    assert re.search(r"000334\.png: image 334: is empty; replace", message)
    assert re.search(r"000335\.png: image 335: is not an image, despite its name", message)


def test_headers_of_thousands_of_files_are_all_checked(tmp_path: Path):
    for image_id in range(2000):
        (tmp_path / f"{image_id}.png").write_bytes(b"\x89PNG\r\n\x1a\n1234")
    for image_id in (0, 777, 1999):
        (tmp_path / f"{image_id}.png").write_bytes(b"GARBAGE")
    files = ImageFiles.in_folder(tmp_path, "{image_id}.png")
    from ivqa.data.validation import Problems

    problems = Problems()
    files.check_headers(np.arange(2000), problems)
    assert len(problems) == 3
    unused = Problems()
    files.check_headers(np.array([5, 6]), unused)
    assert len(unused) == 0
