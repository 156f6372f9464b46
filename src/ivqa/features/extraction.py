"""Images through a network into the feature store: in chunks, so that it can be interrupted."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.progress import track
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ivqa.data.images import ImageFiles

Network = Callable[[Tensor], Mapping[str, Tensor]]
"""Images (B, 3, H, W), RGB in [0, 1] -> features by name, each with B rows."""


class ResizedImages(Dataset[Tensor]):
    """Images as uint8 tensors (3, size, size), the aspect ratio given up as in the VQA models."""

    def __init__(self, images: ImageFiles, size: int, start: int = 0) -> None:
        self.images, self.size, self.start = images, size, start

    def __getitem__(self, index: int) -> Tensor:
        picture = self.images.open(int(self.images.ids[self.start + index]))
        if picture.size != (self.size, self.size):
            picture = picture.resize((self.size, self.size), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1)

    def __len__(self) -> int:
        return len(self.images) - self.start


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

    Raises ValueError naming the image whose file cannot be read or whose features are not finite.
    """
    if (folder / "done").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    progress = folder / "progress.json"
    start = json.loads(progress.read_text())["images"] if progress.is_file() else 0
    arrays: dict[str, np.memmap] = {}
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
                    arrays[name] = _array(folder, name, (len(images), *value.shape[1:]))
                arrays[name][start:end] = value.half().cpu().numpy()
                arrays[name].flush()
            start = end
            _write(progress, json.dumps({"images": start}))
    np.save(folder / "ids.npy", images.ids)
    _write(folder / "done", "")


def pixels(images: ImageFiles, file: Path, size: int) -> np.ndarray:
    """All images as one memory-mapped uint8 array (M, 3, size, size), decoded once into `file`."""
    if not file.is_file():
        draft = file.with_name(f".{file.name}.{os.getpid()}.npy")
        array = np.lib.format.open_memmap(
            draft, mode="w+", dtype=np.uint8, shape=(len(images), 3, size, size)
        )
        for row, picture in enumerate(_each(images, size)):
            array[row] = picture
        array.flush()
        draft.replace(file)
    return np.load(file, mmap_mode="r")


def _each(images: ImageFiles, size: int) -> Iterator[np.ndarray]:
    resized = ResizedImages(images, size)
    rows = range(len(resized))
    for row in track(rows, description=f"reading {len(rows)} images", transient=True):
        yield resized[row].numpy()


def _array(folder: Path, name: str, shape: tuple[int, ...]) -> np.memmap:
    file = folder / f"{name}.npy"
    if file.is_file():
        array = np.lib.format.open_memmap(file, mode="r+")
        if array.shape == shape:
            return array
    return np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=shape)


def _check_finite(name: str, value: Tensor, images: ImageFiles, start: int) -> None:
    finite = torch.isfinite(value.half()).flatten(1).all(dim=1)
    if not finite.all():
        row = start + int((~finite).nonzero()[0])
        raise ValueError(
            f"{images.paths[row]}: its feature '{name}' is not finite in half precision; "
            "check the weights of features="
        )


def _write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)
