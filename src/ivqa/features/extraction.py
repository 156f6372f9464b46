"""Computes the features of all images of a split, part by part.

Several processes, on one machine or on many that share a disk, compute the parts of a split
together. An interrupted extraction continues with the parts that have no file.
"""

import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from ivqa.data.batches.encoded_split import ImageFeatures
from ivqa.data.dataset import VQADataset
from ivqa.data.images import ImageFiles
from ivqa.features.decoding import PreparedImages, asked_images, check_room, tracked
from ivqa.features.feature_parts import FeatureParts
from ivqa.features.pictures import Network, PictureFeatures
from ivqa.features.store import FeatureStore, read_meta
from ivqa.store.digests import digest
from ivqa.store.files import FileError, copy_file, write_json
from ivqa.store.integrity import MANIFEST, first_fault, write_manifest
from ivqa.store.locks import folder_lock
from ivqa.terminal import terminal

_PART = 256  # images of a part: a kill loses at most one part


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

    Processes that need the same features at the same time compute them together. Features of a
    split whose files are damaged are computed again. Images without questions have no features.

    Args:
        splits: Stages ("train", "val", "test") or names of splits; none for a store that only
            computes the features of given pictures (`FeatureStore.extract`).
        make_network: Builds the network for a device ("cpu" or "cuda"). It is called only if there
            are features to compute, after the images of all splits have been found.
        num_workers: Processes that read images; 0 reads them in threads of this process.

    Returns:
        The store.

    Raises:
        UserError: A split has no images, an image cannot be read, or the disk is full.
        FileError: Features are not finite, or partly written features are damaged.
    """
    names = list(dict.fromkeys(dataset.name_of(split) for split in splits))
    started = time.perf_counter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    # The caller's random numbers must not depend on whether the features were stored.
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        with folder_lock(folder):
            for name in names:
                _remove_if_damaged(folder / name)
            todo = [name for name in names if not (folder / name / MANIFEST).is_file()]
            images = {name: asked_images(dataset.split(name)) for name in todo}
            network = make_network(device) if todo else None  # one process may train it
        if network is not None:
            options = {"batch_size": batch_size, "num_workers": num_workers}
            for name in todo:
                extract(network, images[name], folder / name, device=device, **options)
            seconds = time.perf_counter() - started
            terminal().print(
                f"image features: stored in {folder} ({seconds:.0f} s)", soft_wrap=True
            )
    pictures = PictureFeatures(make_network, batch_size)
    with folder_lock(folder):
        if names:
            _write_meta(folder, _sizes(folder / names[0]), key)
        elif not (folder / "meta.json").is_file():
            _write_meta(folder, _sizes_of_blank(pictures), key)
    return FeatureStore(folder, pictures)


def store_for_others(
    own: ImageFeatures, dataset: VQADataset, splits: Sequence[str], root: Path
) -> FeatureStore:
    """Computes the features of other data with the network of a store, see `build_store`.

    Raises:
        ValueError: The store `own` was opened without its network.
    """
    pictures = own.extractor if isinstance(own, FeatureStore) else None
    if not isinstance(own, FeatureStore) or pictures is None:
        raise ValueError("these features were opened as files alone; build them with features=")
    key = digest([own.cache_key(), dataset.cache_key()])
    name = own.directory.name.rpartition("-")[0]
    return build_store(
        dataset,
        splits,
        root / f"{name}-{key}",
        key,
        pictures.make_network,
        batch_size=pictures.batch_size,
    )


def extend_store(
    base: FeatureStore,
    folder: Path,
    key: str,
    splits: Sequence[str],
    added: Callable[[str], Mapping[str, NDArray[np.float16]]],
    pictures: PictureFeatures,
) -> FeatureStore:
    """Makes a store with the features of another one and further features of the same images.

    The arrays of the other store are linked, not copied, where the file system can. The caller
    holds the lock of the folder.

    Args:
        base: The other store; it has the features of all splits.
        added: Computes the further features of a split: arrays by name, with the rows of `base`.
        pictures: Computes all features of other pictures.
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
        write_manifest(folder / name / MANIFEST, _arrays(folder / name))
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
    part_size: int = _PART,
) -> None:
    """Writes the features of all images of a split, or those that no process has written yet.

    The name of the folder is that of the split. All processes that share the work have the same
    `part_size`, which `batch_size` does not exceed; `num_workers` is that of `build_store`.

    Raises:
        UserError: An image cannot be read, or the disk has no room for the features.
        FileError: Features are not finite, or a part is damaged.
    """
    manifest = folder / MANIFEST
    parts = FeatureParts(folder / "parts", len(images), part_size, manifest)
    while missing := parts.missing():
        if not _compute_parts(network, images, parts, batch_size, num_workers, device):
            parts.wait_for(missing[0])  # others hold all that is left; one may die
    with folder_lock(folder):
        if not manifest.is_file():
            parts.join(folder)
            np.save(folder / "ids.npy", images.ids)
            write_manifest(manifest, _arrays(folder))
        shutil.rmtree(parts.folder, ignore_errors=True)


class _ClaimedBatches(Sampler[list[int]]):
    """The batches of the parts that this process takes, one part after another."""

    def __init__(self, parts: FeatureParts, batch_size: int) -> None:
        self.parts, self.batch_size = parts, batch_size
        self.given: deque[tuple[int, list[int]]] = deque()

    def __iter__(self) -> Iterator[list[int]]:
        for part in self.parts.claims():
            rows = list(self.parts.rows(part))
            for start in range(0, len(rows), self.batch_size):
                batch = rows[start : start + self.batch_size]
                self.given.append((part, batch))
                yield batch

    def __len__(self) -> int:
        """The number of batches if no other process takes part."""
        rows = [len(self.parts.rows(part)) for part in self.parts.missing()]
        return sum(-(-size // self.batch_size) for size in rows)


def _compute_parts(
    network: Network,
    images: ImageFiles,
    parts: FeatureParts,
    batch_size: int,
    num_workers: int,
    device: torch.device | str,
) -> int:
    """Computes the parts that no process has written or holds; returns their number."""
    claimed = _ClaimedBatches(parts, batch_size)
    prepared = PreparedImages(images, network.prepare)
    batches = DataLoader(prepared, batch_sampler=claimed, num_workers=num_workers)
    activity = f"computing {len(images)} images of {parts.folder.parent.name}"
    computed: list[Mapping[str, NDArray[np.float16]]] = []
    finished = 0
    with parts, torch.inference_mode():
        for batch in tracked(batches, activity):
            part, rows = claimed.given.popleft()
            found = network.compute(batch.to(device))
            features = {name: value.half().cpu() for name, value in found.items()}
            for name, value in features.items():
                _check_finite(name, value, images, rows[0])
            if not computed:
                # For the missing parts, and for all parts joined.
                left = sum(len(parts.rows(part)) for part in parts.missing())
                row = sum(value[0].nbytes for value in features.values())
                check_room(parts.folder.parent, row * (left + parts.total))
            computed.append({name: value.numpy() for name, value in features.items()})
            if rows[-1] == parts.rows(part)[-1]:
                parts.write(
                    part,
                    {name: np.concatenate([one[name] for one in computed]) for name in features},
                )
                computed.clear()
                finished += 1
    return finished


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
    if fault := first_fault(folder / MANIFEST):
        terminal().print(f"{fault}: these features are computed again", soft_wrap=True)
        shutil.rmtree(folder)


def _write_meta(folder: Path, sizes: dict[str, int], key: str) -> None:
    """Writes the meta.json of a store, unless it says the same already."""
    try:
        if read_meta(folder) == (sizes, key):
            return
    except FileError:
        pass
    write_json(folder / "meta.json", {"sizes": sizes, "key": key})


def _check_finite(name: str, value: Tensor, images: ImageFiles, start: int) -> None:
    finite = torch.isfinite(value).flatten(1).all(dim=1)
    if not finite.all():
        row = start + int((~finite).nonzero()[0])
        raise FileError(
            f"{images.paths[row]}: its feature '{name}' is not finite in half precision; "
            "check the weights of features="
        )
