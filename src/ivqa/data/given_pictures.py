"""Pictures outside any data set: a file, a folder, a pattern, a PIL image or an array of pixels."""

import glob
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ivqa.data.images import IMAGE_SUFFIXES, open_picture
from ivqa.data.rgb import to_rgb
from ivqa.errors import UserError
from ivqa.store.files import FileError, check_regular

Picture = str | Path | Image.Image | np.ndarray
"""A picture as a caller gives it."""


@dataclass(frozen=True)
class NumberedPictures:
    """A `PixelSource` of pictures by image id: in memory, or files that are opened when needed."""

    pictures: Mapping[int, Path | Image.Image]

    @property
    def images(self) -> "NumberedPictures":
        """The pictures, as a split of a data set has them."""
        return self

    def path(self, image_id: int) -> Path | Image.Image:
        """Returns the file of a picture, or the picture in memory."""
        return self.pictures[image_id]

    def open(self, image_id: int) -> Image.Image:
        """Returns a picture in RGB.

        Raises:
            FileError: The file is missing or is not an image.
        """
        return read_picture(self.pictures[image_id])


def read_picture(picture: Picture) -> Image.Image:
    """Reads one picture in RGB, see `to_rgb`.

    It is given as the path of an image file, an image, or an array (H, W), (H, W, 3) or (H, W, 4)
    of dtype uint8: grey, RGB, or RGB and opacity.

    Raises:
        FileError: The file is missing or is not an image.
        UserError: The array or the image is not a picture.
    """
    if isinstance(picture, str | Path):
        with warnings.catch_warnings():
            # Pillow warns above 89 megapixels and refuses above 179.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            return open_picture(check_regular(picture))
    image = picture if isinstance(picture, Image.Image) else _of_array(picture)
    try:
        return to_rgb(image)
    except ValueError as error:
        raise UserError(f"a picture of mode {image.mode} cannot be read: {error}") from None


def picture_files(place: str, key: str = "image") -> list[Path]:
    """Finds the image files that a text names, sorted by name; hidden files are left out.

    The text, the value of `key`, is a file, a folder of images, or a pattern with `*` or `?`, such
    as "photos/*.jpg".

    Raises:
        UserError: There is no such file, or the folder or the pattern has no image.
    """
    path = Path(place).expanduser()
    if path.is_dir():
        found = [file for file in path.iterdir() if not file.name.startswith(".")]
        found = [file for file in found if file.suffix.lower() in IMAGE_SUFFIXES]
        if not found:
            kinds = ", ".join(sorted(IMAGE_SUFFIXES))
            raise UserError(f"{key}={place}: this folder has no image files ({kinds})")
    elif path.exists() or not glob.has_magic(place):
        if not path.exists():
            raise FileError(f"{key}={place}: there is no such file; give a file, folder or pattern")
        found = [path]
    else:
        found = [Path(file) for file in glob.glob(str(path)) if not Path(file).is_dir()]
        if not found:
            raise UserError(f"{key}={place}: no file has a name like this; check the pattern")
    return sorted(found)


def _of_array(pixels: object) -> Image.Image:
    shape: tuple[int, ...] = getattr(pixels, "shape", ())
    kind = getattr(pixels, "dtype", None)
    is_picture = len(shape) == 2 or (len(shape) == 3 and shape[2] in (3, 4))
    if not isinstance(pixels, np.ndarray) or kind != np.uint8 or not is_picture or 0 in shape:
        found = f"{kind} of shape {tuple(shape)}" if shape else type(pixels).__name__
        raise UserError(
            "a picture must be a path, a PIL image, or a uint8 array (height, width, 3) with "
            f"values from 0 to 255, not {found}"
        )
    return Image.fromarray(pixels)


def numbered_pictures(images: Picture | Iterable[Picture]) -> NumberedPictures:
    """Numbers pictures from 1; each is read once, so that a bad one is named at once.

    `images` is a path, a folder or a pattern such as "photos/*.jpg"; or paths, PIL images or uint8
    arrays (height, width, 3).

    Raises:
        UserError: There is none, or one cannot be read.
    """
    if isinstance(images, str | Path):
        given: list[Any] = picture_files(str(images), "images")
    elif isinstance(images, Image.Image) or hasattr(images, "shape"):
        given = [images]
    else:
        given = list(images)
    if not given:
        raise UserError("images: there are none; give a folder, or at least one picture")
    pictures: dict[int, Path | Image.Image] = {}
    for number, picture in enumerate(given, start=1):
        read = read_picture(picture)
        pictures[number] = Path(picture) if isinstance(picture, str | Path) else read
    return NumberedPictures(pictures)
