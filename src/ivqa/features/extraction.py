"""Computes the features of all images of a split, in batches, so that it can be interrupted.

An interrupted extraction continues with the first batch that is not in the files.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console
from torch import Tensor
from torch.utils.data import DataLoader

from ivqa.data.dataset import VQADataset
from ivqa.data.images import ImageFiles
from ivqa.data.vqa_json import VQASplit
from ivqa.features.decoding import PreparedImages, check_room, subset
from ivqa.features.pictures import Network, PictureFeatures
from ivqa.features.progress import tracked
from ivqa.features.store import FeatureStore, read_meta
from ivqa.files import FileError, copy_file, locked, read_json, write_json
from ivqa.integrity import MANIFEST, damage, seal


def build_store(
    dataset: VQADataset,
    splits: Sequence[str],
    folder: Path,
    key: str,
    make_network: Callable[[str], Network],
    *,
    batch_size: int,
    num_workers: int = 0,
) -> FeatureStore:
    """Computes the features of splits that are not stored yet, and opens the store.

    Only one process at a time computes features. Those of a split whose files are damaged are
    computed again. Images without questions have no features.

    Args:
        dataset: The data.
        splits: Stages ("train", "val", "test") or names of splits; none for a store that only
            computes the features of given pictures (`FeatureStore.extract`).
        folder: Folder of the store.
        key: Digest of everything that determines the features.
        make_network: Builds the network for a device ("cpu" or "cuda"). It is called only if there
            are features to compute, after the images of all splits have been found.
        batch_size: Images computed at once.
        num_workers: Processes that read images; 0 reads them in threads of this process.

    Returns:
        The store.

    Raises:
        UserError: A split has no images, an image cannot be read, or the disk is full.
        FileError: Features are not finite, or partly written features are damaged.
    """
    names = list(dict.fromkeys(dataset.name_of(split) for split in splits))
    with locked(folder):
        for name in names:
            _remove_if_damaged(folder / name)
        todo = [name for name in names if not (folder / name / MANIFEST).is_file()]
        if todo:
            started = time.perf_counter()
            images = {name: _images_with_questions(dataset.split(name)) for name in todo}
            device = "cuda" if torch.cuda.is_available() else "cpu"
            # The caller's random numbers must not depend on whether the features were stored.
            with torch.random.fork_rng(range(torch.cuda.device_count())):
                network = make_network(device)
                for name in todo:
                    options = {"batch_size": batch_size, "num_workers": num_workers}
                    extract(network, images[name], folder / name, device=device, **options)
            seconds = time.perf_counter() - started
            Console().print(f"image features: stored in {folder} ({seconds:.0f} s)", soft_wrap=True)
        pictures = PictureFeatures(make_network, batch_size)
        if names:
            _write_meta(folder, _sizes(folder / names[0]), key)
        elif not (folder / "meta.json").is_file():
            _write_meta(folder, _sizes_of_blank(pictures), key)
    return FeatureStore(folder, pictures)


def extend_store(
    base: FeatureStore,
    folder: Path,
    key: str,
    splits: Sequence[str],
    added: Callable[[str], Mapping[str, NDArray[np.float16]]],
    pictures: PictureFeatures,
) -> FeatureStore:
    """Makes a store with the features of another one and further features of the same images.

    The arrays of the other store are linked, not copied, where the file system can.

    Args:
        base: The other store; it has the features of all splits.
        folder: Folder of the new store. The caller holds its lock.
        key: Digest of everything that determines the features.
        splits: Names of splits.
        added: Computes the further features of a split: arrays by name, with the rows of `base`.
        pictures: Computes all features of other pictures.

    Returns:
        The new store.
    """
    for name in splits:
        _remove_if_damaged(folder / name)
        if (folder / name / MANIFEST).is_file():
            continue
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file in _arrays(base.directory / name):
            _link(file, folder / name / file.name)
        for feature, array in added(name).items():
            file = folder / name / f"{feature}.npy"
            check_room(file, array.nbytes)
            np.save(file, array)
        seal(folder / name / MANIFEST, _arrays(folder / name))
    sizes = _sizes(folder / splits[0]) if splits else _sizes_of_blank(pictures)
    _write_meta(folder, sizes, key)
    return FeatureStore(folder, pictures)


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        copy_file(source, target)


def extract(
    network: Network,
    images: ImageFiles,
    folder: Path,
    *,
    batch_size: int,
    num_workers: int = 0,
    device: torch.device | str = "cpu",
) -> None:
    """Writes the features of all images of a split, or those that an earlier call did not write.

    Args:
        network: Prepares pictures and computes their features.
        images: The images, in the order of the rows.
        folder: Folder of the split; its name is the name of the split.
        batch_size: Images computed at once.
        num_workers: Processes that read images; 0 reads them in threads of this process.
        device: Device of the network.

    Raises:
        UserError: An image cannot be read, or the disk has no room for the features.
        FileError: Features are not finite, or partly written features are damaged.
    """
    if (folder / MANIFEST).is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    start = _images_done(folder, len(images))
    arrays: dict[str, NDArray[np.float16]] = {}
    batches = DataLoader(
        PreparedImages(images, network.prepare, start),
        batch_size=batch_size,
        num_workers=num_workers,
    )
    activity = f"computing {len(images)} images of {folder.name}"
    with torch.inference_mode():
        for batch in tracked(batches, activity):
            features = network.compute(batch.to(device))
            end = start + len(batch)
            for name, value in features.items():
                _check_finite(name, value, images, start)
                if name not in arrays:
                    shape = (len(images), *value.shape[1:])
                    arrays[name] = _array(folder / f"{name}.npy", shape, resumed=start > 0)
                arrays[name][start:end] = value.half().cpu().numpy()
                arrays[name].flush()  # type: ignore[attr-defined]
            # The progress is written after the features: after an interruption, a batch may be
            # computed twice, but none is missing.
            start = end
            write_json(folder / "progress.json", {"images": start})
    np.save(folder / "ids.npy", images.ids)
    seal(folder / MANIFEST, _arrays(folder))


def _images_with_questions(split: VQASplit) -> ImageFiles:
    # A folder may have far more images than a split asks about: COCO's 80,000 for a part of VQA.
    return subset(split.require_images(), np.unique(split.image_ids))


def _array(file: Path, shape: tuple[int, ...], *, resumed: bool) -> NDArray[np.float16]:
    """A writable memory map: a new file, or the valid one of an interrupted extraction."""
    if resumed:
        try:
            array = np.lib.format.open_memmap(file, mode="r+")
        except Exception:  # NumPy raises many types of exceptions for damaged headers
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
    check_room(file, 2 * int(np.prod(shape)))
    return np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=shape)


def _sizes(folder: Path) -> dict[str, int]:
    """Last dimension of every feature of a finished split."""
    files = [file for file in _arrays(folder) if file.stem != "ids"]
    return {file.stem: int(np.load(file, mmap_mode="r").shape[-1]) for file in files}


def _sizes_of_blank(pictures: PictureFeatures) -> dict[str, int]:
    """Last dimension of every feature of any picture."""
    features = pictures.extract([Image.new("RGB", (224, 224))])
    return {name: value.shape[-1] for name, value in sorted(features.items())}


def _arrays(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.glob("*.npy")) if not file.name.startswith(".")]


def _remove_if_damaged(folder: Path) -> None:
    """Deletes the features of a finished split if a file is missing or was changed."""
    if not (folder / MANIFEST).is_file():
        return
    if fault := damage(folder / MANIFEST):
        Console().print(f"{fault}: these features are computed again", soft_wrap=True)
        shutil.rmtree(folder)


def _write_meta(folder: Path, sizes: dict[str, int], key: str) -> None:
    """Writes the meta.json of a store, unless it says the same already."""
    try:
        if read_meta(folder) == (sizes, key):
            return
    except FileError:
        pass
    write_json(folder / "meta.json", {"sizes": sizes, "key": key})


def _images_done(folder: Path, total: int) -> int:
    """The number of images that an earlier call computed; 0 without a readable progress.json."""
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
