"""Images through a network into the feature store: in chunks, so that it can be interrupted."""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from ivqa.data.dataset import VQADataset
from ivqa.data.images import ImageFiles
from ivqa.data.vqa_json import VQASplit
from ivqa.errors import UserError
from ivqa.features.pictures import Network, PictureFeatures, resized
from ivqa.features.store import FeatureStore, read_meta
from ivqa.files import FileError, locked, read_json, write_json, written
from ivqa.integrity import MANIFEST, damage, is_whole, manifest_of, seal

_DECODERS = min(8, os.cpu_count() or 1)  # threads: Pillow decodes and resizes outside the GIL


class ResizedImages(Dataset[Tensor]):
    """Images as uint8 tensors (3, size, size)."""

    def __init__(self, images: ImageFiles, size: int, start: int = 0) -> None:
        self.images, self.size, self.start = images, size, start

    def __getitem__(self, index: int) -> Tensor:
        return resized(self.images.open(int(self.images.ids[self.start + index])), self.size)

    def __getitems__(self, indices: list[int]) -> list[Tensor]:
        """A batch, decoded by threads; in a worker process by that process alone."""
        if get_worker_info() is not None:
            return [self[index] for index in indices]
        with ThreadPoolExecutor(_DECODERS) as pool:
            return list(pool.map(self.__getitem__, indices))

    def __len__(self) -> int:
        return len(self.images) - self.start


def build_store(
    dataset: VQADataset,
    splits: Sequence[str],
    folder: Path,
    key: str,
    make_network: Callable[[str], Network],
    *,
    image_size: int,
    batch_size: int,
    num_workers: int = 0,
) -> FeatureStore:
    """The store of `splits` in `folder`: what is not there yet is computed, by one process.

    A split whose files are damaged is named and computed anew.

    splits: stages or split names. make_network: called with the device, only if there is
    something to compute, and after it is known that all the splits have images. Images that no
    question is about have no features.
    """
    names = list(dict.fromkeys(dataset.name_of(split) for split in splits))
    with locked(folder):
        for name in names:
            _remove_if_damaged(folder / name)
        todo = [name for name in names if not (folder / name / MANIFEST).is_file()]
        if todo:
            started = time.perf_counter()
            images = {name: _asked_about(dataset.split(name)) for name in todo}
            device = "cuda" if torch.cuda.is_available() else "cpu"
            # What follows must not depend on whether the features were found or computed.
            with torch.random.fork_rng(range(torch.cuda.device_count())):
                network = make_network(device)
                for name in todo:
                    extract(
                        network,
                        images[name],
                        folder / name,
                        image_size=image_size,
                        batch_size=batch_size,
                        num_workers=num_workers,
                        device=device,
                    )
            seconds = time.perf_counter() - started
            Console().print(f"image features: {folder} ({seconds:.0f} s)", soft_wrap=True)
        sizes = _sizes(folder / names[0])
        if not _is_described(folder, sizes, key):
            write_json(folder / "meta.json", {"sizes": sizes, "key": key})
    return FeatureStore(folder, PictureFeatures(make_network, image_size, batch_size))


def extract(
    network: Network,
    images: ImageFiles,
    folder: Path,
    *,
    image_size: int,
    batch_size: int,
    num_workers: int = 0,
    device: torch.device | str = "cpu",
) -> None:
    """Writes the features of all images into `folder`, going on where an earlier call stopped.

    Raises UserError naming the image whose file cannot be read or whose features are not finite,
    or where the disk has no room for the features.
    """
    if (folder / MANIFEST).is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    start = _images_done(folder, len(images))
    arrays: dict[str, NDArray[np.float16]] = {}
    batches = DataLoader(
        ResizedImages(images, image_size, start), batch_size=batch_size, num_workers=num_workers
    )
    label = f"features of {len(images)} images ({folder.name})"
    with torch.inference_mode():
        for batch in track(batches, description=label, transient=True):
            features = network(batch.to(device).float() / 255)
            end = start + len(batch)
            for name, value in features.items():
                _check_finite(name, value, images, start)
                if name not in arrays:
                    shape = (len(images), *value.shape[1:])
                    arrays[name] = _array(folder / f"{name}.npy", shape, resumed=start > 0)
                arrays[name][start:end] = value.half().cpu().numpy()
                arrays[name].flush()  # type: ignore[attr-defined]
            start = end
            write_json(folder / "progress.json", {"images": start})
    np.save(folder / "ids.npy", images.ids)
    seal(folder / MANIFEST, _arrays(folder))


def pixels(images: ImageFiles, file: Path, size: int) -> NDArray[np.uint8]:
    """All images as one memory-mapped uint8 array (M, 3, size, size), decoded once into `file`."""
    if not is_whole(file):
        _check_room(file, len(images) * 3 * size * size)
        with written(file) as draft:
            array = np.lib.format.open_memmap(
                draft, mode="w+", dtype=np.uint8, shape=(len(images), 3, size, size)
            )
            for start, pictures in _decoded(images, size):
                array[start : start + len(pictures)] = pictures
            array.flush()
        seal(manifest_of(file), [file])
    return np.load(file, mmap_mode="r")


def subset(images: ImageFiles, image_ids: Iterable[int]) -> ImageFiles:
    """Those of `images` whose id is in `image_ids`."""
    kept = np.flatnonzero(np.isin(images.ids, np.fromiter(image_ids, dtype=np.int64)))
    return ImageFiles(images.ids[kept], [images.paths[position] for position in kept])


def _asked_about(split: VQASplit) -> ImageFiles:
    # A folder may serve more questions than are in use: COCO's 80,000 images for a subset of VQA.
    return subset(split.require_images(), np.unique(split.image_ids))


def _decoded(images: ImageFiles, size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    chunk = 256
    batches = DataLoader(ResizedImages(images, size), batch_size=chunk)
    label = f"reading {len(images)} images"
    for number, batch in enumerate(track(batches, description=label, transient=True)):
        yield number * chunk, batch.numpy()


def _array(file: Path, shape: tuple[int, ...], *, resumed: bool) -> NDArray[np.float16]:
    if resumed:
        try:
            array = np.lib.format.open_memmap(file, mode="r+")
        except Exception:  # whatever the bytes lead to
            array = None
        if array is None or array.shape != shape or array.dtype != np.float16:
            found = "missing" if not file.is_file() else "damaged or of another shape"
            raise FileError(
                f"{file} is {found}, although a part of it was written before; delete "
                f"{file.parent} to compute these features again"
            )
        for rows in np.array_split(array, max(1, len(array) // 256)):
            if not np.isfinite(rows).all():
                raise FileError(
                    f"{file} holds values that are not finite; delete {file.parent} to compute "
                    "these features again"
                )
        return array
    _check_room(file, 2 * int(np.prod(shape)))
    return np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=shape)


def _check_room(file: Path, wanted: int) -> None:
    # A memory map on a full disk ends the process with a bus error: better to look first.
    free = shutil.disk_usage(file.parent).free
    if wanted > free:
        raise UserError(
            f"{file} needs {wanted / 1e9:.1f} GB and its disk has {free / 1e9:.1f} GB left; "
            "make room, set artifacts= to another disk, or choose a smaller features.image_size"
        )


def _sizes(folder: Path) -> dict[str, int]:
    """Last dimension of every feature of a finished split."""
    files = [file for file in _arrays(folder) if file.stem != "ids"]
    return {file.stem: int(np.load(file, mmap_mode="r").shape[-1]) for file in files}


def _arrays(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.glob("*.npy")) if not file.name.startswith(".")]


def _remove_if_damaged(folder: Path) -> None:
    """Deletes the features of a finished split that are no longer as they were written."""
    if not (folder / MANIFEST).is_file():
        return
    if fault := damage(folder / MANIFEST):
        Console().print(f"{fault}: these features are computed again", soft_wrap=True)
        shutil.rmtree(folder)


def _is_described(folder: Path, sizes: dict[str, int], key: str) -> bool:
    try:
        return read_meta(folder) == (sizes, key)
    except FileError:
        return False


def _images_done(folder: Path, total: int) -> int:
    """How many images an earlier call has done; 0 where it did not note that, or not readably."""
    try:
        done = read_json(folder / "progress.json", dict).get("images")
    except FileError:
        return 0
    return done if type(done) is int and 0 <= done <= total else 0


def _check_finite(name: str, value: Tensor, images: ImageFiles, start: int) -> None:
    finite = torch.isfinite(value.half()).flatten(1).all(dim=1)
    if not finite.all():
        row = start + int((~finite).nonzero()[0])
        raise FileError(
            f"{images.paths[row]}: its feature '{name}' is not finite in half precision; "
            "check the weights of features="
        )
