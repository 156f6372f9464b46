"""Conversion of images of any mode to 8-bit RGB."""

import re

import numpy as np
from PIL import Image, ImageOps
from PIL.ExifTags import Base

# Bits of a grey or colour value, in Pillow's name for how a file stores its pixels.
_DEPTH = re.compile(r"(?:RGB|[LI]);(\d+)")
_MOST = 65535  # the largest 16-bit value


def to_rgb(image: Image.Image) -> Image.Image:
    """Converts an image of any mode to the RGB picture that a viewer shows.

    It is best given as opened, before its pixels are read.

    - It is rotated as its EXIF data say, and the first frame of an animation.
    - Transparency (an alpha channel, or a transparent colour) is composited on white.
    - Of 16-bit values the upper 8 bits are kept, as Pillow does with 16-bit colours.
    - 32-bit integers (mode I) are 16-bit values, or 8-bit levels if none exceeds 255.
    - Floats (mode F) run from 0 to 1, or are whole 8-bit levels.

    Raises:
        ValueError: Which value is white is unknown.

    Example:
        >>> to_rgb(Image.new("RGBA", (1, 1), (0, 0, 0, 51))).getpixel((0, 0))
        (204, 204, 204)
    """
    depth = _depth(image)  # Pillow forgets it when it reads the pixels
    image = ImageOps.exif_transpose(image)
    key = image.info.get("transparency")
    if image.mode == "F" or image.mode.startswith("I"):
        values = np.asarray(image)
        grey = Image.fromarray(_levels(values, image.mode, depth))
        if key is None:
            return grey.convert("RGB")
        grey.putalpha(Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8)))
        image = grey
    elif image.mode == "La":
        image = image.convert("LA")  # no other conversion of this mode exists
    elif key is not None and depth != 8:
        image.info["transparency"] = _key_of_8_bits(key, depth)
    if not image.has_transparency_data:
        return image.convert("RGB")
    opaque = image.convert("RGBA")
    picture = Image.new("RGB", image.size, "white")
    picture.paste(opaque.convert("RGB"), mask=opaque.getchannel("A"))
    return picture


def is_plain(image: Image.Image) -> bool:
    """Whether every reader shows the same picture as `to_rgb` returns.

    True for one frame of RGB or grey with at most 8 bits, no transparency and no rotation; `image`
    is as opened, before its pixels are read.
    """
    return (
        image.mode in ("RGB", "L")
        and _depth(image) <= 8
        and not image.has_transparency_data
        and getattr(image, "n_frames", 1) == 1
        and image.getexif().get(Base.Orientation, 1) == 1
    )


def _depth(image: Image.Image) -> int:
    """Bits of a value in the file; of an image in memory, those of its mode."""
    stored = _DEPTH.search(str([tile[3] for tile in getattr(image, "tile", ())] or image.mode))
    if image.mode == "I" and image.format == "PPM":
        return 16  # Pillow scales every PGM file of more than 8 bits
    return int(stored[1]) if stored else 8


def _levels(values: np.ndarray, mode: str, depth: int) -> np.ndarray:
    """Grey levels (H, W), uint8, of integers of more than 8 bits, or of floats."""
    low, high = values.min(), values.max()  # NaN if there is one
    if mode == "F":
        if low >= 0 and high <= 1:
            return np.rint(values * 255).astype(np.uint8)
        if low >= 0 and high <= 255 and np.array_equal(values, np.rint(values)):
            return values.astype(np.uint8)
        raise ValueError(f"its values run from {low:g} to {high:g}; scale them to 0 to 1")
    if low < 0 or high > _MOST:
        raise ValueError(f"its values run from {low} to {high}; scale them to 0 to {_MOST}")
    if mode == "I" and depth != 16 and high <= 255:
        return values.astype(np.uint8)
    return (values >> (depth - 8 if 8 < depth < 16 else 8)).astype(np.uint8)


def _key_of_8_bits(key: object, depth: int) -> object:
    """A transparent colour as 8-bit values; Pillow converts the pixels, but not the colour."""
    if isinstance(key, tuple):
        return tuple(value >> depth - 8 for value in key)
    return key * 255 // (2**depth - 1) if isinstance(key, int) else key
