"""The feature store: image features of whole splits in memory-mapped files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from ivqa.errors import UserError
from ivqa.features.pictures import PictureFeatures


class FeatureStore:
    """Features that `extraction.extract` wrote: DIRECTORY/SPLIT/{ids,grid,pooled,concepts}.npy.

    directory: of one feature component; its name ends in the key. Arrays are float16 on disk and
    float32 in a batch. extractor: what computed them, for pictures that are in no split.
    Raises ValueError where a split is absent or incomplete when it is used.
    """

    def __init__(self, directory: Path, extractor: PictureFeatures | None = None) -> None:
        self.directory = Path(directory)
        self.extractor = extractor
        meta = json.loads((self.directory / "meta.json").read_text())
        self.sizes: dict[str, int] = meta["sizes"]
        self.key: str = meta["key"]
        self._open: dict[str, tuple[NDArray[np.int64], NDArray[np.int64], Mapping]] = {}

    def rows(self, split: str, image_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of the images in `split`. Raises UserError for an image without features."""
        order, ids, _ = self._split(split)
        wanted = np.asarray(image_ids, dtype=np.int64)
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        if (missing := wanted[ids[at] != wanted]).size:
            raise UserError(
                f"{self.directory / split}: no features for image {missing[0]} "
                f"({missing.size} missing); delete the folder to compute them again"
            )
        return order[at]

    def gather(
        self, split: str, rows: NDArray[np.int64], names: Sequence[str]
    ) -> dict[str, Tensor]:
        """float32 features of the rows, by name: grid (M, L, d), pooled (M, d), concepts (M, C)."""
        arrays = self._split(split)[2]
        return {name: torch.from_numpy(arrays[name][rows]).float() for name in names}

    def extract(self, pictures: Sequence[Image.Image], names: Sequence[str]) -> dict[str, Tensor]:
        """float32 features of M RGB pictures that are in no split, by name, as `gather`.

        Raises ValueError where the store was opened without its network.
        """
        if self.extractor is None:
            raise ValueError(
                f"{self.directory} was opened as files alone; build it with its features= to "
                "compute the features of disturbed images"
            )
        features = self.extractor.extract(pictures)
        return {name: features[name] for name in names}

    def __getstate__(self) -> dict[str, Any]:
        # Each process maps the files itself; pickled, a memory map becomes all of its content.
        return {**vars(self), "_open": {}, "extractor": None}

    def _split(self, split: str) -> tuple[NDArray[np.int64], NDArray[np.int64], Mapping]:
        if split not in self._open:
            folder = self.directory / split
            if not (folder / "done").is_file():
                raise ValueError(f"{folder}: features of split '{split}' were not computed")
            ids = np.load(folder / "ids.npy")
            order = np.argsort(ids)
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in self.sizes}
            self._open[split] = order, ids[order], arrays
        return self._open[split]
