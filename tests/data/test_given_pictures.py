"""Pictures that are given as files, images or arrays, also unusual and broken ones."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ivqa.data.given_pictures import NumberedPictures, picture_files, read_picture
from ivqa.errors import UserError

RED, BLUE = (200, 10, 20), (10, 20, 200)


@pytest.fixture
def halves() -> Image.Image:
    """40 x 20 pixels: the left half red, the right half blue."""
    picture = Image.new("RGB", (40, 20), RED)
    picture.paste(BLUE, (20, 0, 40, 20))
    return picture


def _near(pixel: object, color: tuple[int, int, int]) -> bool:
    return bool(np.abs(np.array(pixel, dtype=int) - color).max() <= 12)  # JPEG is lossy


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_an_exif_rotation_is_applied(halves: Image.Image, suffix: str, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees clockwise
    halves.save(tmp_path / f"x.{suffix}", exif=exif, quality=95)
    for given in (tmp_path / f"x.{suffix}", Image.open(tmp_path / f"x.{suffix}")):
        turned = read_picture(given)
        assert turned.size == (20, 40)
        assert _near(turned.getpixel((10, 3)), RED)  # the left half is now at the top
        assert _near(turned.getpixel((10, 36)), BLUE)


def test_every_kind_of_picture_becomes_rgb(halves: Image.Image, tmp_path: Path) -> None:
    halves.convert("CMYK").save(tmp_path / "cmyk.jpg", quality=95)
    halves.convert("L").save(tmp_path / "grey.png")
    halves.convert("RGBA").save(tmp_path / "opacity.png")
    frames = [halves.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    halves.save(tmp_path / "moving.gif", save_all=True, append_images=frames, duration=50)
    for name in ("cmyk.jpg", "opacity.png", "moving.gif"):
        picture = read_picture(str(tmp_path / name))
        assert picture.mode == "RGB"
        assert _near(picture.getpixel((3, 10)), RED), name  # of the GIF: the first frame
    assert read_picture(tmp_path / "grey.png").mode == "RGB"


def test_arrays_and_images_equal_the_file(halves: Image.Image, tmp_path: Path) -> None:
    halves.save(tmp_path / "x.png")
    pixels = np.asarray(halves)
    wanted = np.asarray(read_picture(tmp_path / "x.png"))
    opaque = np.dstack([pixels, np.full((20, 40), 255, np.uint8)])
    for given in (halves, pixels, opaque, pixels[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(np.asarray(read_picture(given)), wanted)
    grey = read_picture(pixels[:, :, 0])
    np.testing.assert_array_equal(np.asarray(grey)[:, :, 2], pixels[:, :, 0])
    opened = NumberedPictures({1: halves, 2: grey}).open(2)
    np.testing.assert_array_equal(np.asarray(opened), np.asarray(grey))


@pytest.mark.parametrize(
    "wrong", [np.zeros((4, 4, 3)), np.zeros((4, 4, 2), np.uint8), np.zeros((0, 4), np.uint8), 5]
)
def test_an_array_that_is_no_picture_is_refused(wrong: object) -> None:
    with pytest.raises(UserError, match="a picture must be a path, a PIL image, or a uint8 array"):
        read_picture(wrong)  # type: ignore[arg-type]


def test_one_pixel_and_a_very_large_picture(tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), BLUE).save(tmp_path / "one.png")
    assert read_picture(tmp_path / "one.png").getpixel((0, 0)) == BLUE
    Image.new("L", (12_000, 9_000), 7).save(tmp_path / "large.png")
    assert read_picture(tmp_path / "large.png").size == (12_000, 9_000)


def test_files_that_are_no_pictures(tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("not a picture")
    with pytest.raises(UserError, match=r"text\.jpg: picture cannot be read .*replace the file"):
        read_picture(tmp_path / "text.jpg")
    with pytest.raises(UserError, match=r"none\.jpg"):
        read_picture(tmp_path / "none.jpg")


def test_a_text_names_a_file_a_folder_or_a_pattern(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.PNG", "c.txt", ".d.jpg", "e [1].jpg"):
        (tmp_path / name).touch()

    def found(place: str) -> list[str]:
        return [file.name for file in picture_files(place)]

    assert found(str(tmp_path)) == ["a.PNG", "b.jpg", "e [1].jpg"]
    assert found(f"{tmp_path}/*.jpg") == ["b.jpg", "e [1].jpg"]
    assert found(f"{tmp_path}/?.*") == ["a.PNG", "b.jpg", "c.txt"]
    assert found(f"{tmp_path}/e [1].jpg") == ["e [1].jpg"]  # a file, although [1] is a pattern
    (tmp_path / "empty").mkdir()
    for place, message in {
        f"{tmp_path}/empty": "this folder has no image files",
        f"{tmp_path}/none.jpg": "there is no such file",
        f"{tmp_path}/*.webp": "no file has a name like this",
    }.items():
        with pytest.raises(UserError, match=message):
            picture_files(place)
