"""Damaged pictures."""

from pathlib import Path

import pytest
from bad_files import encoded, refused
from PIL import Image

from ivqa.data.images import open_picture

PICTURES = {
    "jpg": encoded("JPEG"),
    "progressive.jpg": encoded("JPEG", progressive=True),
    "png": encoded("PNG"),
    "bmp": encoded("BMP"),
    "gif": encoded("GIF"),
    "webp": encoded("WEBP"),
}


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("kind", PICTURES)
def test_truncated_pictures_arerefused(kind: str, share: float, tmp_path: Path) -> None:
    file, whole = tmp_path / f"7.{kind}", PICTURES[kind]
    file.write_bytes(whole)
    assert open_picture(file).size == (160, 120)
    file.write_bytes(whole[: int(share * len(whole))])
    assert "replace the file" in refused(open_picture, file)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("kind", ["jpg", "progressive.jpg"])
def test_a_jpeg_with_an_early_end_mark_isrefused(kind: str, share: float, tmp_path: Path) -> None:
    """Decoders silently fill missing pixels with grey if an end mark follows."""
    file, whole = tmp_path / f"7.{kind}", PICTURES[kind]
    file.write_bytes(whole[: int(share * len(whole))] + b"\xff\xd9")
    with Image.open(file) as image:
        image.convert("RGB")
    assert "its pixels end before the picture does" in refused(open_picture, file)


def test_complete_jpegs_of_one_colour_are_read(tmp_path: Path) -> None:
    for size in ((1, 1), (8, 8), (33, 17), (160, 120)):
        for options in ({}, {"progressive": True}, {"subsampling": 0}, {"quality": 5}):
            file = tmp_path / "white.jpg"
            Image.new("RGB", size, "white").save(file, **options)
            assert open_picture(file).size == size


def test_a_damaged_png_is_refused_though_it_decodes(tmp_path: Path) -> None:
    file, whole = tmp_path / "7.png", bytearray(PICTURES["png"])
    whole[-13:] = bytes(13)  # the end chunk and the last checksum
    file.write_bytes(whole)
    refused(open_picture, file)
