"""Images as cameras and the web have them: rotated, animated, CMYK, grey, tiny and huge."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ivqa.data import VQADataset
from ivqa.features import TimmFeatures
from ivqa.features.decoding import PreparedImages
from ivqa.features.pictures import Resize

BLUE, RED = (0, 0, 255), (255, 0, 0)


def _root(folder: Path, name: str) -> Path:
    """A data root with one question about one image, whose file is the result."""
    (folder / "images" / "val").mkdir(parents=True)
    question = {"image_id": 1, "question_id": 1, "question": "What?"}
    answers = [{"answer": "red", "answer_confidence": "yes", "answer_id": 1}]
    annotation = {"question_id": 1, "image_id": 1, "answers": answers}
    (folder / "questions_val.json").write_text(json.dumps({"questions": [question]}))
    (folder / "annotations_val.json").write_text(json.dumps({"annotations": [annotation]}))
    return folder / "images" / "val" / name


def _read(folder: Path, size: int = 32) -> np.ndarray:
    """The pixels (size, size, 3) that a network gets."""
    images = VQADataset(folder, train="val").split("val").require_images()
    return PreparedImages(images, Resize(size))[0].permute(1, 2, 0).numpy()


def _halves(size: tuple[int, int]) -> Image.Image:
    """Blue above red."""
    picture = Image.new("RGB", size, BLUE)
    picture.paste(RED, (0, size[1] // 2, *size))
    return picture


@pytest.mark.parametrize(
    ("orientation", "blue_at"),
    [(1, (2, 16)), (3, (29, 16)), (6, (16, 29)), (8, (16, 2)), (5, (16, 2))],
)
def test_the_rotation_of_a_camera_is_applied(
    tmp_path: Path, orientation: int, blue_at: tuple[int, int]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    _halves((64, 48)).save(_root(tmp_path, "x_1.jpg"), exif=exif, quality=95)
    pixels = _read(tmp_path)
    assert pixels[blue_at][2] > 200
    assert pixels[tuple(31 - at for at in blue_at)][0] > 200


def test_the_first_frame_of_an_animation_is_read(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (40, 30), colour) for colour in (RED, BLUE)]
    frames[0].save(_root(tmp_path, "x_1.gif"), save_all=True, append_images=frames[1:])
    assert (_read(tmp_path) == RED).all()


@pytest.mark.parametrize("mode", ["CMYK", "L", "LA", "P", "I;16", "1"])
def test_other_colour_modes_become_rgb(tmp_path: Path, mode: str) -> None:
    suffix = "jpg" if mode == "CMYK" else "png"
    picture = Image.new("RGB", (40, 30), (255, 255, 255))
    if mode == "I;16":
        picture = Image.fromarray(np.full((30, 40), 65535, dtype=np.uint16))
    else:
        picture = picture.convert(mode)
    picture.save(_root(tmp_path, f"x_1.{suffix}"))
    assert (_read(tmp_path) >= 250).all()


def test_an_image_of_one_pixel(tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), RED).save(_root(tmp_path, "x_1.png"))
    assert (_read(tmp_path) == RED).all()
    pytest.importorskip("timm")
    store = TimmFeatures(arch="test_resnet", weights="random", image_size=64).build(
        VQADataset(tmp_path, train="val"), ["val"], tmp_path / "features"
    )
    assert torch.isfinite(store.gather("val", np.array([0]), ["grid"])["grid"]).all()


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_an_image_of_108_million_pixels(tmp_path: Path) -> None:
    _halves((12_000, 9_000)).save(_root(tmp_path, "x_1.jpg"), quality=50)
    pixels = _read(tmp_path)
    assert pixels[2, 16][2] > 200
    assert pixels[29, 16][0] > 200


def test_an_image_too_large_for_the_memory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (100, 100)).save(_root(tmp_path, "x_1.png"))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ValueError, match=r"x_1\.png: image 1 cannot be read .*exceeds limit"):
        _read(tmp_path)
