"""Every kind of image becomes the RGB picture that numpy computes by hand."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ivqa.data.given_pictures import read_picture
from ivqa.data.images import open_picture
from ivqa.data.rgb import is_plain, to_rgb
from ivqa.errors import UserError

RNG = np.random.default_rng(0)
COLOURS = RNG.integers(0, 256, (6, 8, 3), dtype=np.uint8)
ALPHA = RNG.integers(0, 256, (6, 8), dtype=np.uint8)
GREY16 = RNG.integers(0, 65536, (6, 8), dtype=np.uint16)
GREY16[0, :3] = 0, 65535, 300
REAL = RNG.random((6, 8), dtype=np.float32)


def _grey(levels: np.ndarray) -> np.ndarray:
    return np.repeat(levels[..., None], 3, axis=2).astype(np.uint8)


def _on_white(colours: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    share = alpha[..., None] / 255
    return np.floor(colours * share + 255 * (1 - share) + 0.5).astype(np.uint8)


def _png(values: np.ndarray, depth: int, key: tuple[int, ...] = ()) -> bytes:
    """A PNG file of grey or RGB values of 1 to 16 bits; Pillow writes only some of them."""
    height, width = values.shape[:2]
    bits = np.unpackbits(values.reshape(height, -1, 1).astype(">u2").view(np.uint8), axis=2)
    rows = np.packbits(bits[..., 16 - depth :].reshape(height, -1), axis=1)

    def chunk(name: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + check

    kind = 2 if values.ndim == 3 else 0
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0)
    found = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    if key:
        found += chunk(b"tRNS", struct.pack(f">{len(key)}H", *key))
    pixels = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    return found + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _read(content: bytes, folder: Path) -> np.ndarray:
    (folder / "x.png").write_bytes(content)
    return np.asarray(open_picture(folder / "x.png"))


def _saved(image: Image.Image, folder: Path, name: str, **options: object) -> np.ndarray:
    """What a file of the image gives; the image itself and the opened file must give the same."""
    image.save(folder / name, **options)
    found = np.asarray(open_picture(folder / name))
    np.testing.assert_array_equal(np.asarray(read_picture(Image.open(folder / name))), found)
    if not options:
        np.testing.assert_array_equal(np.asarray(read_picture(image)), found)
    return found


@pytest.mark.parametrize("name", ["x.png", "x.tiff"])
def test_the_upper_8_bits_of_16_bit_grey_are_kept(name: str, tmp_path: Path) -> None:
    image = Image.fromarray(GREY16)
    np.testing.assert_array_equal(_saved(image, tmp_path, name), _grey(GREY16 // 256))


@pytest.mark.parametrize("mode", ["I;16", "I;16L", "I;16B"])
def test_byte_orders_of_16_bit_grey(mode: str) -> None:
    order = ">u2" if mode == "I;16B" else "<u2"
    image = Image.frombytes(mode, (8, 6), GREY16.astype(order).tobytes())
    np.testing.assert_array_equal(np.asarray(to_rgb(image)), _grey(GREY16 // 256))


def test_a_pgm_file_of_more_than_8_bits(tmp_path: Path) -> None:
    for most, values in ((65535, GREY16), (1023, GREY16 // 64), (65535, GREY16 // 256)):
        content = b"P5 8 6 %d\n" % most + values.astype(">u2").tobytes()
        expected = _grey(np.floor(values.astype(float) * 65535 / most + 0.5) // 256)
        np.testing.assert_array_equal(_read(content, tmp_path), expected)


def test_16_bit_colours_are_those_of_their_upper_bytes(tmp_path: Path) -> None:
    colours = RNG.integers(0, 65536, (6, 8, 3))
    np.testing.assert_array_equal(_read(_png(colours, 16), tmp_path), colours // 256)


def test_32_bit_integers_and_floats(tmp_path: Path) -> None:
    whole = np.int32(GREY16)
    for values, expected in (
        (whole, GREY16 // 256),
        (whole // 256, GREY16 // 256),  # no value over 255: levels of 8 bits
        (REAL, np.floor(REAL * 255 + 0.5)),
        (np.float32(COLOURS[..., 0]), COLOURS[..., 0]),
        (np.float32(COLOURS[..., 0] > 99), (COLOURS[..., 0] > 99) * 255),
    ):
        found = _saved(Image.fromarray(values), tmp_path, "x.tiff")
        np.testing.assert_array_equal(found, _grey(expected))


@pytest.mark.parametrize(
    "values",
    [
        np.int32([[0, 65536]]),
        np.int32([[-1, 255]]),
        np.float32([[0, 1.5]]),
        np.float32([[-0.5, 1]]),
        np.float32([[0, np.nan]]),
        np.float32([[0, 300]]),
    ],
)
def test_values_without_a_known_white_are_refused(values: np.ndarray, tmp_path: Path) -> None:
    Image.fromarray(values).save(tmp_path / "x.tiff")
    with pytest.raises(UserError, match=r"x\.tiff.*its values run from .*; scale them to 0 to"):
        read_picture(tmp_path / "x.tiff")
    with pytest.raises(UserError, match=r"mode [IF] cannot be read: its values run from"):
        read_picture(Image.fromarray(values))


@pytest.mark.parametrize("name", ["x.png", "x.webp", "x.tiff"])
def test_an_alpha_channel_is_composited_on_white(name: str, tmp_path: Path) -> None:
    image = Image.fromarray(np.dstack([COLOURS, ALPHA]))
    options = {"lossless": True, "exact": True} if name == "x.webp" else {}
    found = _saved(image, tmp_path, name, **options)
    np.testing.assert_array_equal(found, _on_white(COLOURS, ALPHA))
    np.testing.assert_array_equal(np.asarray(read_picture(np.asarray(image))), found)


def test_grey_and_palettes_with_alpha(tmp_path: Path) -> None:
    grey = np.dstack([COLOURS[..., 0], ALPHA])
    expected = _on_white(_grey(COLOURS[..., 0]), ALPHA)
    image = Image.fromarray(grey)
    assert image.mode == "LA"
    np.testing.assert_array_equal(_saved(image, tmp_path, "x.png"), expected)
    for mode in ("RGBa", "La"):  # multiplied by alpha, as some readers give it
        found = np.asarray(to_rgb(image.convert("RGBA" if mode == "RGBa" else "LA").convert(mode)))
        assert np.abs(np.int16(found) - expected).max() <= 1
    palette = Image.fromarray(RNG.integers(0, 4, (6, 8), dtype=np.uint8))
    colours = COLOURS[0, :4]
    palette.putpalette(colours.tobytes())
    index = np.asarray(palette)
    shares = np.array([0, 255, 255, 128], dtype=np.uint8)
    found = _saved(palette, tmp_path, "x.png", transparency=shares.tobytes())
    np.testing.assert_array_equal(found, _on_white(colours[index], shares[index]))
    for name in ("y.png", "y.gif"):
        found = _saved(palette, tmp_path, name, transparency=2)
        np.testing.assert_array_equal(
            found, _on_white(colours[index], np.where(index == 2, 0, 255))
        )


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_a_transparent_grey_value_is_white(depth: int, tmp_path: Path) -> None:
    values = RNG.integers(0, 2**depth, (6, 8))
    key = int(values[2, 3])
    levels = values * 255 // (2**depth - 1) if depth < 16 else values // 256
    expected = _grey(np.where(values == key, 255, levels))
    np.testing.assert_array_equal(_read(_png(values, depth, (key,)), tmp_path), expected)


@pytest.mark.parametrize("depth", [8, 16])
def test_a_transparent_colour_is_white(depth: int, tmp_path: Path) -> None:
    values = COLOURS.astype(int) * (257 if depth == 16 else 1)
    expected = COLOURS.copy()
    expected[2, 3] = 255
    found = _read(_png(values, depth, tuple(values[2, 3])), tmp_path)
    np.testing.assert_array_equal(found, expected)


def test_a_rotation_is_applied_to_every_mode(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.fromarray(np.dstack([COLOURS, ALPHA]))
    found = _saved(image, tmp_path, "x.png", exif=exif)
    np.testing.assert_array_equal(found, np.rot90(_on_white(COLOURS, ALPHA), -1))
    found = _saved(Image.fromarray(GREY16), tmp_path, "y.png", exif=exif)
    np.testing.assert_array_equal(found, np.rot90(_grey(GREY16 // 256), -1))


def test_the_first_frame_of_a_transparent_animation(tmp_path: Path) -> None:
    frame = Image.new("P", (8, 6), 0)
    frame.putpalette([10, 20, 30, 200, 100, 50])
    frame.paste(1, (2, 2, 5, 5))
    options = {"save_all": True, "append_images": [frame.rotate(180)], "transparency": 0}
    found = _saved(frame, tmp_path, "x.gif", **options)
    expected = np.full((6, 8, 3), 255)
    expected[2:5, 2:5] = 200, 100, 50
    np.testing.assert_array_equal(found, expected)


def test_the_image_that_is_given_does_not_change() -> None:
    image = Image.open(io.BytesIO(_png(np.array([[0, 1], [2, 3]]), 2, (1,))))
    assert np.asarray(to_rgb(image))[..., 0].tolist() == [[0, 255], [170, 255]]
    assert image.info["transparency"] == 1
    opaque = Image.fromarray(COLOURS)
    assert to_rgb(opaque) is not opaque


@pytest.mark.parametrize(
    ("content", "plain"),
    [
        (_png(COLOURS, 8), True),
        (_png(COLOURS[..., 0], 8), True),
        (_png(COLOURS[..., 0] // 64, 2), True),
        (_png(COLOURS, 8, (1, 2, 3)), False),
        (_png(COLOURS[..., 0], 8, (1,)), False),
        (_png(COLOURS, 16), False),
        (_png(GREY16, 16), False),
        (_png(COLOURS[..., 0] // 128, 1), False),
    ],
)
def test_plain_files(content: bytes, plain: bool) -> None:
    assert is_plain(Image.open(io.BytesIO(content))) is plain
