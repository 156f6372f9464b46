"""The feature store: image features of whole splits in memory-mapped files.

DIRECTORY/SPLIT/ holds ids.npy (int64) and one float16 array for each feature: grid.npy,
pooled.npy, concepts.npy. DIRECTORY/SPLIT/integrity.json has their sizes and digests, and
DIRECTORY/meta.json the last dimension of each feature and the key of the component.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from typing_extensions import override

from ivqa.data.batches.encoded_split import ImageFeatures
from ivqa.errors import UserError
from ivqa.features.pictures import PictureFeatures
from ivqa.store.arrays import load_array
from ivqa.store.files import FileError, read_json
from ivqa.store.integrity import MANIFEST, first_fault


class FeatureStore(ImageFeatures):
    """Reads the features that `extraction.extract` wrote.

    A split is opened on first use, and its files are compared with their digests then. Arrays are
    float16 on disk and float32 in a batch.

    Args:
        directory: Folder of one feature component; its name ends in the key.
        extractor: The network that computed the features, for pictures outside the splits; None
            for the files alone.

    Raises:
        FileError: meta.json is missing or damaged; on use: a split is absent or damaged.
    """

    def __init__(self, directory: Path, extractor: PictureFeatures | None = None) -> None:
        self.directory = Path(directory)
        self.extractor = extractor
        self.sizes, self._key = read_meta(self.directory)
        self._open: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], Mapping]] = {}

    def cache_key(self) -> str:
        """The digest of everything that determines the features."""
        return self._key

    @override
    def rows(self, split: str, image_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        order, ids, _ = self._split(split)
        wanted = np.asarray(image_ids, dtype=np.int64)
        # `ids` is sorted; an id beyond the last one is compared with the last one, and differs.
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        if (missing := wanted[ids[at] != wanted]).size:
            raise UserError(
                f"{self.directory / split}: no features for image {missing[0]} "
                f"({missing.size} missing); delete the folder to compute them again"
            )
        return order[at]

    @override
    def gather(
        self, split: str, rows: NDArray[np.int64], names: Sequence[str]
    ) -> dict[str, Tensor]:
        arrays = self._split(split)[2]
        return {name: torch.from_numpy(arrays[name][rows]).float() for name in names}

    @override
    def extract(self, pictures: Sequence[Image.Image], names: Sequence[str]) -> dict[str, Tensor]:
        if self.extractor is None:
            raise ValueError(
                f"{self.directory} was opened as files alone; build it with its features= to "
                "compute the features of disturbed images"
            )
        features = self.extractor.extract(pictures)
        return {name: features[name] for name in names}

    def __getstate__(self) -> dict[str, Any]:
        # Pickling a memory map copies its whole content, so each process maps the files itself.
        return {**vars(self), "_open": {}, "extractor": None}

    def _split(self, split: str) -> tuple[NDArray[np.int64], NDArray[np.int64], Mapping]:
        if split not in self._open:
            folder = self.directory / split
            if not (folder / MANIFEST).is_file():
                raise FileError(f"{folder}: features of split '{split}' were not computed")
            remedy = f"delete {folder} to compute these features again"
            if fault := first_fault(folder / MANIFEST):
                raise FileError(f"{fault}; {remedy}")
            ids = np.array(load_array(folder / "ids.npy", "i", remedy=remedy))
            order = np.argsort(ids)
            arrays = {}
            for name, size in self.sizes.items():
                array = load_array(folder / f"{name}.npy", "f", remedy=remedy)
                if len(array) != len(ids) or array.shape[-1] != size:
                    raise FileError(
                        f"{folder / name}.npy has shape {array.shape}, not {len(ids)} images of "
                        f"{size} values; {remedy}"
                    )
                arrays[name] = array
            self._open[split] = order, ids[order], arrays
        return self._open[split]


def read_meta(directory: Path) -> tuple[dict[str, int], str]:
    """Reads the meta.json of a store: the last dimension of each feature, and the component's key.

    Raises:
        FileError: The file is missing or damaged.
    """
    file = directory / "meta.json"
    meta = read_json(file, dict)
    sizes, key = meta.get("sizes"), meta.get("key")
    known = isinstance(sizes, dict) and all(type(size) is int for size in sizes.values())
    if not known or not sizes or not isinstance(key, str):
        raise FileError(f"{file} does not describe features; delete {directory} to compute them")
    return sizes, key
