"""Reads the images of a split as arrays of one size."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.progress import track
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from ivqa.data.images import ImageFiles
from ivqa.data.split import VQASplit
from ivqa.errors import UserError
from ivqa.features.pictures import Resize
from ivqa.store.files import atomic_write
from ivqa.store.integrity import is_intact, manifest_of, write_manifest

# Threads that decode images; Pillow decodes and resizes without the global interpreter lock.
_DECODERS = min(8, os.cpu_count() or 1)
_CHUNK = 256  # images or rows that are held in memory at once


class PreparedImages(Dataset[Tensor]):
    """Images as the input of a network: `prepare` makes RGB pictures tensors of one shape."""

    def __init__(self, images: ImageFiles, prepare: Callable[[Image.Image], Tensor]) -> None:
        self.images, self.prepare = images, prepare

    def __getitem__(self, index: int) -> Tensor:
        return self.prepare(self.images.open(int(self.images.ids[index])))

    def __getitems__(self, indices: list[int]) -> list[Tensor]:
        """Decodes a batch: in threads, or one by one in a worker process of a DataLoader."""
        if get_worker_info() is not None:
            return [self[index] for index in indices]
        with ThreadPoolExecutor(_DECODERS) as pool:
            return list(pool.map(self.__getitem__, indices))

    def __len__(self) -> int:
        return len(self.images)


def pixels(images: ImageFiles, file: Path, size: int) -> NDArray[np.uint8]:
    """Decodes M images into one file, unless it exists.

    Returns:
        A memory-mapped array (M, 3, size, size), uint8.

    Raises:
        UserError: An image cannot be read, or the disk has no room.
    """
    if not is_intact(file):
        check_room(file, len(images) * 3 * size * size)
        with atomic_write(file) as draft:
            array = np.lib.format.open_memmap(
                draft, mode="w+", dtype=np.uint8, shape=(len(images), 3, size, size)
            )
            batches = DataLoader(PreparedImages(images, Resize(size)), batch_size=_CHUNK)
            for number, batch in enumerate(tracked(batches, f"reading {len(images)} images")):
                start = number * _CHUNK
                array[start : start + len(batch)] = batch.numpy()
            array.flush()
        write_manifest(manifest_of(file), [file])
    return np.load(file, mmap_mode="r")


def subset(images: ImageFiles, image_ids: Iterable[int]) -> ImageFiles:
    """Selects those of `images` whose id is in `image_ids`, in their order."""
    kept = np.flatnonzero(np.isin(images.ids, np.fromiter(image_ids, dtype=np.int64)))
    return ImageFiles(images.ids[kept], [images.paths[position] for position in kept])


def asked_images(split: VQASplit) -> ImageFiles:
    """The images of a split with questions; COCO's 80,000 may be the folder of a part of VQA.

    Raises:
        UserError: The split has no images.
    """
    return subset(split.require_images(), np.unique(split.image_ids))


def check_room(file: Path, wanted: int) -> None:
    """Raises UserError unless the disk of a file has room for `wanted` bytes."""
    # Writing to a memory map on a full disk ends the process with a bus error.
    free = shutil.disk_usage(file.parent).free
    if wanted > free:
        raise UserError(
            f"{file} needs {wanted / 1e9:.1f} GB and its disk has {free / 1e9:.1f} GB left; "
            "make room, set artifacts= to another disk, or choose a smaller features.image_size"
        )


def tracked(items: Iterable[Any], activity: str) -> Iterator[Any]:
    """Shows a line of progress while items are consumed, and removes it at the end.

    `activity` says what is being done, such as "reading 500 images".
    """
    yield from track(items, description=f"image features: {activity}", transient=True)
