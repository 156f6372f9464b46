"""Claim: extracting features is about as fast as a plain loop over the library (goal: 0.95 of it).

The photographs of DAQUAR (IVQA_SHARED_DATA or ../shared/data; without it those of data=scenes),
random weights, batches of 16, one thread of PyTorch. The plain loop is a DataLoader without workers
around the library's own preparation of whole pictures, and its model in inference mode; it keeps
the features in memory, while ours are checked and written into the store. Seconds of an idle
machine. Several pairs of networks, each three times in turn: where a network lies in memory alone
changes its speed by some percent. The ratio is the median over the pairs, the interval their
quartiles.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers import AutoImageProcessor, AutoModel, SiglipConfig, ViTImageProcessor

from benchmarks.timing import paired
from ivqa.data import VQADataset
from ivqa.data.images import ImageFiles
from ivqa.features import TimmFeatures, TransformersFeatures
from ivqa.features.decoding import subset
from ivqa.features.extraction import extract
from ivqa.features.pretrained.base import PretrainedFeatures
from ivqa.scenes import ScenesDataset

Features = tuple[Tensor, Tensor]  # grid and pooled

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
IMAGES, BATCH, PAIRS, REPEATS = 32, 16, 7, 3


class _Pictures(Dataset):
    """What a plain script writes: open, convert, prepare."""

    def __init__(self, paths: list[Path], prepare: Callable[[Image.Image], Tensor]) -> None:
        self.paths, self.prepare = paths, prepare

    def __getitem__(self, row: int) -> Tensor:
        return self.prepare(Image.open(self.paths[row]).convert("RGB"))

    def __len__(self) -> int:
        return len(self.paths)


def run() -> list[dict[str, Any]]:
    """One row a network: images a second of both, and their ratio."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        images = images_for(Path(folder))
        siglip = _write_siglip(Path(folder) / "siglip")
        return [
            _row("timm, resnet50", _timm("resnet50"), images),
            _row("timm, vit_small_patch16_224", _timm("vit_small_patch16_224"), images),
            _row("transformers, SigLIP of width 384", _transformers(siglip), images),
        ]


@dataclass(frozen=True)
class _Sides:
    """Both sides of one comparison.

    Args:
        settings: Ours.
        load: Loads what a plain script has: the function that prepares a picture, and the one that
            takes a batch of prepared pictures and returns their grid and pooled features.
    """

    settings: PretrainedFeatures
    load: Callable[[], tuple[Callable[[Image.Image], Tensor], Callable[[Tensor], Features]]]


def _timm(arch: str) -> _Sides:
    def load() -> tuple[Callable[[Image.Image], Tensor], Callable[[Tensor], Features]]:
        network = timm.create_model(arch).eval()
        config = timm.data.resolve_model_data_config(network)
        prepare = timm.data.create_transform(**config | {"crop_pct": 1, "crop_mode": "squash"})

        def compute(batch: Tensor) -> Features:
            features = network.forward_features(batch)
            return features, network.forward_head(features, pre_logits=True)

        return prepare, compute

    return _Sides(TimmFeatures(arch=arch, weights="random"), load)


def _write_siglip(folder: Path) -> Path:
    """Writes a SigLIP model with random weights."""
    sizes = {"hidden_size": 384, "intermediate_size": 1536, "num_attention_heads": 6}
    text = {**sizes, "num_hidden_layers": 1, "vocab_size": 100}
    config = SiglipConfig(text_config=text, vision_config=sizes)
    AutoModel.from_config(config).save_pretrained(folder)
    ViTImageProcessor(size={"height": 224, "width": 224}).save_pretrained(folder)
    return folder


def _transformers(folder: Path) -> _Sides:
    def load() -> tuple[Callable[[Image.Image], Tensor], Callable[[Tensor], Features]]:
        model = AutoModel.from_pretrained(folder, dtype="float32").eval()
        processor = AutoImageProcessor.from_pretrained(folder)

        def prepare(picture: Image.Image) -> Tensor:
            return processor(picture, return_tensors="pt")["pixel_values"][0]

        def compute(batch: Tensor) -> Features:
            output = model.get_image_features(pixel_values=batch)
            return output.last_hidden_state, output.pooler_output

        return prepare, compute

    return _Sides(TransformersFeatures(path=str(folder)), load)


def _row(name: str, sides: _Sides, images: ImageFiles) -> dict[str, Any]:
    times = np.array([_seconds(sides, images) for _ in range(PAIRS)])  # (PAIRS, 2)
    ratios = times[:, 1] / times[:, 0]
    low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    fast, slow = np.median(times, axis=0)
    return {
        "network": name,
        "ivqa, images/s": round(len(images) / fast, 1),
        "plain loop, images/s": round(len(images) / slow, 1),
        "ratio": round(middle, 2),
        "quartiles": f"{low:.2f} to {high:.2f}",
    }


def _seconds(sides: _Sides, images: ImageFiles) -> tuple[float, float]:
    """Median seconds of ours and of the plain loop, with new networks."""
    network = sides.settings.on_device("cpu")
    prepare, compute = sides.load()

    def ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            extract(network, images, Path(folder), batch_size=BATCH)

    def plain() -> None:
        batches = DataLoader(_Pictures(images.paths, prepare), batch_size=BATCH)
        with torch.inference_mode():
            kept = [compute(batch) for batch in batches]
        torch.cat([pooled for _, pooled in kept])

    return paired(ours, plain, REPEATS)


def images_for(folder: Path) -> ImageFiles:
    """Photographs of DAQUAR, or scenes that are generated in a folder."""
    root = Path(os.environ.get("IVQA_SHARED_DATA", SHARED)) / "daquar"
    if not root.is_dir():
        scenes = ScenesDataset(folder / "scenes", images={"train": IMAGES, "val": 2, "test": 2})
        scenes.prepare()
        return scenes.split("train").require_images()
    found = VQADataset(root).split("val").require_images()
    return subset(found, found.ids[:IMAGES].tolist())
