"""The pixels of whole splits in memory-mapped files, for models that compute their features."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from typing_extensions import override

from ivqa.data.batches.encoded_split import ImageFeatures
from ivqa.data.dataset import VQADataset
from ivqa.errors import UserError
from ivqa.features.decoding import asked_images, pixels
from ivqa.features.pictures import Resize
from ivqa.store.arrays import load_array
from ivqa.store.locks import folder_lock
from ivqa.trained import ImageEncoder


class PixelStore(ImageFeatures):
    """Offers features by name and size, and gives batches the pixels to compute them from.

    DIRECTORY/SPLIT.npy holds the images of a split, (M, 3, size, size) uint8, by ascending id.

    Args:
        ids: Ids (M,) int64 of the stored images by name of the split, ascending.
        sizes: The last dimension of each feature, by name.
        make_encoder: Builds an encoder that computes the features of the given names.
        key: Digest of everything that determines pixels and encoder.
    """

    def __init__(
        self,
        directory: Path,
        ids: Mapping[str, NDArray[np.int64]],
        *,
        image_size: int,
        sizes: Mapping[str, int],
        make_encoder: Callable[[Sequence[str]], ImageEncoder],
        key: str,
    ) -> None:
        self.directory = Path(directory)
        self.ids = dict(ids)
        self.image_size = image_size
        self.sizes = dict(sizes)
        self.make_encoder = make_encoder
        self._key = key
        self._open: dict[str, NDArray[np.uint8]] = {}

    def cache_key(self) -> str:
        """The digest of everything that determines the features."""
        return self._key

    def encoder(self, names: Sequence[str]) -> ImageEncoder:
        """Builds an untrained encoder of the features `names` for one module to own.

        Its initial weights depend on torch's global random state.
        """
        return self.make_encoder(names)

    @override
    def rows(self, split: str, image_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        if split not in self.ids:
            raise UserError(f"{self.directory}: pixels of split '{split}' were not stored")
        ids, wanted = self.ids[split], np.asarray(image_ids, dtype=np.int64)
        at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
        if (missing := wanted[ids[at] != wanted]).size:
            raise UserError(
                f"{self.directory}: no pixels of image {missing[0]} of split '{split}' "
                f"({missing.size} missing); delete the folder to store them again"
            )
        return at

    @override
    def gather(
        self, split: str, rows: NDArray[np.int64], names: Sequence[str]
    ) -> dict[str, Tensor]:
        if split not in self._open:
            remedy = f"delete {self.directory} to store the pixels again"
            self._open[split] = load_array(self.directory / f"{split}.npy", "u", remedy=remedy)
        return {"pixels": torch.from_numpy(self._open[split][rows])}

    @override
    def extract(self, pictures: Sequence[Image.Image], names: Sequence[str]) -> dict[str, Tensor]:
        resize = Resize(self.image_size)
        return {"pixels": torch.stack([resize(one) for one in pictures])}

    def __getstate__(self) -> dict[str, Any]:
        # Pickling a memory map copies its whole content, so each process maps the files itself.
        return {**vars(self), "_open": {}}


def store_pixels(
    dataset: VQADataset, splits: Sequence[str], directory: Path, image_size: int
) -> dict[str, NDArray[np.int64]]:
    """Decodes the images that questions ask about, unless they are stored.

    Only one process at a time decodes; a damaged file is written again.

    Returns:
        Ids (M,) int64 of the images by name of the split, ascending.

    Raises:
        UserError: A split has no images, an image cannot be read, or the disk has no room.
    """
    ids = {}
    # The caller's random numbers must not depend on whether the pixels were stored.
    with folder_lock(directory), torch.random.fork_rng(devices=[]):
        for name in dict.fromkeys(dataset.name_of(split) for split in splits):
            images = asked_images(dataset.split(name))
            pixels(images, directory / f"{name}.npy", image_size)
            ids[name] = images.ids
    return ids
