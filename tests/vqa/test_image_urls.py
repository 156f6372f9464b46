"""Image files become data URLs that show the same picture to every reader."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ivqa.data.batches.batch import DisturbedImages
from ivqa.data.images import ImageFiles
from ivqa.vqa.served.image_urls import EncodedImage, encode_image

ROTATED = Image.Exif()
ROTATED[0x0112] = 6  # the camera was held upright: show it turned by 90 degrees to the right


def _picture(width: int = 40, height: int = 24) -> Image.Image:
    """Four flat quarters, which JPEG keeps."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[: height // 2, : width // 2] = (200, 30, 30)
    pixels[height // 2 :, width // 2 :] = (30, 30, 200)
    return Image.fromarray(pixels)


def _files(folder: Path, name: str, picture: Image.Image, **options: Any) -> ImageFiles:
    picture.save(folder / name, **options)
    return ImageFiles(np.array([7]), [folder / name])


def _seen(image: EncodedImage) -> Image.Image:
    """What a reader of the URL sees, EXIF ignored."""
    head, _, data = image.url.partition(";base64,")
    content = base64.b64decode(data)
    picture = Image.open(io.BytesIO(content))
    assert head == f"data:image/{str(picture.format).lower()}"
    assert picture.mode in ("RGB", "L")
    assert getattr(picture, "n_frames", 1) == 1
    return picture.convert("RGB")


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_plain_file_is_sent_as_it_is(name: str, tmp_path: Path) -> None:
    files = _files(tmp_path, name, _picture())
    assert encode_image(files, 7, 2048).content == (tmp_path / name).read_bytes()
    assert encode_image(files, 7, 40).content == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_picture_is_rotated_as_exif_says(name: str, tmp_path: Path) -> None:
    files = _files(tmp_path, name, _picture(), exif=ROTATED)
    seen = _seen(encode_image(files, 7, 2048))
    expected = _picture().transpose(Image.Transpose.ROTATE_270)
    assert seen.size == (24, 40)
    # JPEG changes the colours by less than 4; the wrong rotation by more than 40.
    assert np.abs(np.int16(seen) - np.int16(expected)).mean() < 8


def test_noise_is_added_to_the_rotated_picture(tmp_path: Path) -> None:
    files = _files(tmp_path, "a.png", _picture(), exif=ROTATED)

    def black_top(image: Image.Image, image_id: int) -> Image.Image:
        assert image_id == 7
        pixels = np.array(image)
        pixels[:5] = 0
        return Image.fromarray(pixels)

    seen = np.array(_seen(encode_image(DisturbedImages(files, black_top), 7, 2048)))
    expected = np.array(_picture().transpose(Image.Transpose.ROTATE_270))
    expected[:5] = 0
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize(
    ("name", "mode", "options"),
    [
        ("a.gif", "P", {}),
        ("a.bmp", "RGB", {}),
        ("a.webp", "RGB", {"lossless": True}),
        ("a.png", "P", {}),
        ("a.jpg", "CMYK", {"quality": 95}),
    ],
)
def test_other_files_are_encoded_again(
    name: str, mode: str, options: dict[str, Any], tmp_path: Path
) -> None:
    files = _files(tmp_path, name, _picture().convert(mode), **options)
    image = encode_image(files, 7, 2048)
    assert image.mime_type == ("image/jpeg" if name == "a.jpg" else "image/png")
    exact = np.int16(files.open(7))
    assert np.abs(np.int16(_seen(image)) - exact).mean() < (3 if name == "a.jpg" else 1e-9)


@pytest.mark.parametrize("kind", ["RGB and tRNS", "RGBA", "LA", "I;16"])
def test_what_readers_show_differently_is_encoded_again(kind: str, tmp_path: Path) -> None:
    shades = np.arange(240, dtype=np.uint8).reshape(12, 20)
    if kind == "RGB and tRNS":
        picture, options = Image.fromarray(np.dstack([shades] * 3)), {"transparency": (0, 0, 0)}
        expected = np.where(shades == 0, 255, shades)
    elif kind == "I;16":
        picture, options, expected = Image.fromarray(shades.astype(np.uint16) * 256), {}, shades
    else:
        grey = Image.fromarray(np.dstack([np.zeros_like(shades), shades]))  # black, more and more
        picture, options, expected = grey.convert(kind), {}, 255 - shades
    files = _files(tmp_path, "a.png", picture, **options)
    seen = np.asarray(_seen(encode_image(files, 7, 2048)))
    np.testing.assert_array_equal(seen, np.dstack([expected] * 3))


@pytest.mark.parametrize("name", ["a.gif", "a.png"])
def test_an_animation_is_its_first_picture(name: str, tmp_path: Path) -> None:
    frames = [_picture().rotate(180)]
    files = _files(tmp_path, name, _picture(), save_all=True, append_images=frames)
    np.testing.assert_array_equal(_seen(encode_image(files, 7, 2048)), _picture())


def test_sizes_from_one_pixel_to_many(tmp_path: Path) -> None:
    assert _seen(encode_image(_files(tmp_path, "a.png", _picture(1, 1)), 7, 2048)).size == (1, 1)
    large = _files(tmp_path, "b.png", _picture(1200, 900))
    assert _seen(encode_image(large, 7, 100)).size == (100, 75)
    thin = _files(tmp_path, "c.jpg", _picture(1200, 2))
    assert _seen(encode_image(thin, 7, 100)).size == (100, 1)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    files = _files(tmp_path, "a.png", _picture())
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:60])
    with pytest.raises(ValueError, match=r"a\.png: image 7 cannot be read"):
        encode_image(files, 7, 2048)


def test_the_digest_is_that_of_the_bytes() -> None:
    one, same, other = (EncodedImage(content, "image/png") for content in (b"a", b"a", b"b"))
    assert one.digest == same.digest != other.digest
    assert one.url == "data:image/png;base64,YQ=="
