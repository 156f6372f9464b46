"""A folder of image files, addressed by their ids in the data set."""

import io
import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ivqa.data.rgb import to_rgb
from ivqa.data.validation import DataError, Problems, is_id
from ivqa.errors import UserError, reason_of
from ivqa.store.files import FileError, check_regular, copy_file, read_bytes

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp"})
_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
_SIGNATURES = (_JPEG, _PNG, b"BM", b"GIF8", b"RIFF")
_HEADER_THREADS = 8  # a small read on a network file system takes milliseconds; many run at once


class ImageFiles:
    """The image files of one split; implements `PixelSource`.

    Args:
        ids: Ids of the images in the data set, (M,) int64, in any order.
        paths: The M files in the order of `ids`.

    Attributes:
        ids: The ids in ascending order, (M,) int64.
        paths: The files in the same order.

    Raises:
        ValueError: The lengths differ.
        DataError: Two files have the same id.
    """

    def __init__(self, ids: NDArray[np.int64], paths: Sequence[Path]) -> None:
        if len(ids) != len(paths):
            raise ValueError(f"image files: {len(ids)} ids do not match {len(paths)} paths")
        order = np.argsort(ids, kind="stable")
        self.ids = np.asarray(ids, dtype=np.int64)[order]
        self.paths = [paths[position] for position in order]
        repeated = np.flatnonzero(self.ids[1:] == self.ids[:-1])
        if len(repeated):
            first = int(repeated[0])
            raise DataError(
                f"image id {self.ids[first]} has two files, {self.paths[first]} and "
                f"{self.paths[first + 1].name}; keep one of them"
            )

    @classmethod
    def in_folder(cls, folder: Path, name_pattern: str) -> "ImageFiles":
        """Finds the images of a folder by one directory listing; no file is opened.

        Args:
            folder: The folder.
            name_pattern: Pattern of the file names, such as "COCO_train2014_{image_id:012d}.jpg"
                or "*{image_id:012d}.*". `*` matches any text; `{image_id:012d}` matches the id,
                with any number of digits.

        Raises:
            DataError: The folder cannot be listed, no name matches, or two files have the same id.
        """
        expression = _name_expression(name_pattern)
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise DataError(f"{folder} cannot be listed ({error.strerror}); check it") from None
        found = [
            (int(match["image_id"]), entry.path)
            for entry in entries
            if (match := expression.fullmatch(entry.name))
            and not entry.name.startswith(".")  # the draft of an interrupted download
            and os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES
        ]
        if not found:
            raise DataError(f"no image in {folder} is named like {name_pattern}")
        largest, path = max(found)
        if not is_id(largest):
            raise DataError(f"{path}: the number in its name has more than 64 bits; rename it")
        ids = np.array([image_id for image_id, _ in found], dtype=np.int64)
        return cls(ids, [Path(path) for _, path in found])

    def path(self, image_id: int) -> Path:
        """Returns the file of an image.

        Raises:
            UserError: The split has no file of this image.
        """
        position = int(np.searchsorted(self.ids, image_id))
        if position == len(self.ids) or self.ids[position] != image_id:
            folder = self.paths[0].parent if self.paths else "an empty index"
            raise UserError(f"image {image_id} has no file in {folder}")
        return self.paths[position]

    def open(self, image_id: int) -> Image.Image:
        """Returns an image in RGB.

        Raises:
            UserError: The file is missing or cannot be read; the message names it.
        """
        path = self.path(image_id)
        if not os.path.lexists(path):
            raise FileError(f"{path}: image {image_id} is missing; restore the file")
        return open_picture(path, f"image {image_id}")

    def copy(self, image_ids: Iterable[int], folder: Path) -> None:
        """Copies the files of images into a folder, named as the layout vqa_json expects.

        Raises:
            UserError: An image has no file.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for image_id in sorted(image_ids):
            source = self.path(image_id)
            copy_file(source, folder / f"{image_id:012d}{source.suffix}")

    def missing(self, image_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns those of `image_ids` that have no file, ascending and distinct."""
        return np.setdiff1d(image_ids, self.ids)

    def check_headers(self, image_ids: NDArray[np.int64], problems: Problems) -> None:
        """Reports every file of `image_ids` whose first bytes are not those of an image.

        12 bytes of each file are read, in parallel: 80,000 files take seconds.
        """
        positions = np.flatnonzero(np.isin(self.ids, image_ids))
        chunks = np.array_split(positions, max(1, min(len(positions) // 256, 256)))

        def faults(chunk: NDArray[np.int64]) -> list[tuple[int, str]]:
            return [(int(i), fault) for i in chunk if (fault := _header_fault(self.paths[i]))]

        with ThreadPoolExecutor(_HEADER_THREADS) as pool:
            for found in pool.map(faults, chunks):
                for position, fault in found:
                    path = self.paths[position]
                    problems.add(
                        str(path), f"image {self.ids[position]}", "", f"{fault}; replace the file"
                    )

    def __len__(self) -> int:
        return len(self.paths)


def open_picture(path: Path, what: str = "picture") -> Image.Image:
    """Reads an image file completely, in RGB, see `to_rgb`; `what` describes it in the message.

    Raises:
        FileError: The file cannot be read, is not an image, or is cut off.
    """
    try:
        content = read_bytes(path)
        picture = _decoded(content)
        if content.startswith(_JPEG) and _is_cut(content, picture):
            raise ValueError("its pixels end before the picture does")
    except Exception as error:  # decoders raise many types, depending on the bytes
        reason = reason_of(error)
        raise FileError(f"{path}: {what} cannot be read ({reason}); replace the file") from None
    return picture


def _decoded(content: bytes) -> Image.Image:
    if content.startswith(_PNG):
        with Image.open(io.BytesIO(content)) as image:
            image.verify()  # compares checksums, which decoding ignores
    with Image.open(io.BytesIO(content)) as image:
        return to_rgb(image)


def _is_cut(content: bytes, picture: Image.Image) -> bool:
    """Whether a JPEG file has its end mark before the data of all pixels.

    The decoder silently fills missing pixels with flat blocks or, in a progressive file, from the
    coarser scans. If the last pixels may have been filled, arbitrary bits are inserted before the
    end mark and the file is decoded again: the picture changes only if pixels are missing.
    """
    # A filled corner is flat; FF C2 marks a progressive file.
    corner = np.asarray(picture)[-4:, -4:].reshape(-1, 3)
    if len(np.unique(corner, axis=0)) > 1 and b"\xff\xc2" not in content:
        return False
    end = content.rfind(b"\xff\xd9")
    if end < 0:
        return False
    padded = content[:end] + b"\x5a\xc3\x96" * 2048 + content[end:]
    return not np.array_equal(np.asarray(_decoded(padded)), np.asarray(picture))


def _name_expression(pattern: str) -> re.Pattern[str]:
    """Converts a pattern of image names to a regular expression with the group `image_id`.

    Example:
        >>> expression = _name_expression("*{image_id:012d}.*")
        >>> expression.fullmatch("COCO_val2014_000000000042.jpg")["image_id"]
        '000000000042'
        >>> _name_expression("*.jpg")
        Traceback (most recent call last):
        ...
        ivqa.errors.UserError: image pattern '*.jpg' must contain {image_id} or {image_id:012d} once
    """
    parts = re.split(r"\{image_id(?::\w+)?\}", pattern)
    if len(parts) != 2:
        raise UserError(
            f"image pattern {pattern!r} must contain {{image_id}} or {{image_id:012d}} once"
        )
    before, after = (".*?".join(map(re.escape, part.split("*"))) for part in parts)
    return re.compile(f"{before}(?P<image_id>[0-9]+){after}")


def _header_fault(path: Path) -> str | None:
    try:
        with check_regular(path).open("rb") as file:
            header = file.read(12)
    except FileError as error:
        return f"cannot be opened ({error})"
    except OSError as error:
        return f"cannot be opened ({error.strerror})"
    if not header:
        return "is empty"
    return None if header.startswith(_SIGNATURES) else "is not an image, despite its name"
