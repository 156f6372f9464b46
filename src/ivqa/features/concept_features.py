"""features=concepts: a concept predictor trained on the data set itself."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from rich.console import Console
from torch import Tensor

from ivqa.data.dataset import VQADataset
from ivqa.features.compact_cnn import CompactCNN
from ivqa.features.concept_training import train_concepts
from ivqa.features.concepts import ConceptVocabulary, image_texts
from ivqa.features.extraction import extract, pixels
from ivqa.features.store import FeatureStore

_VERSION = 1  # change it with anything that changes the features of the same settings


@dataclass(frozen=True, kw_only=True)
class ConceptFeatures:
    """Grid, pooled and concept features of a compact CNN.

    The CNN learns the most frequent words of the training captions, of at most `longest` words
    each (1 as in the paper; 2 to bind a colour to a shape), from the images themselves; where
    there are no captions it learns the words of questions and answers.

    num_concepts: at most so many. image_size: pixels a side. weights: the cnn.pt of an earlier
    store, to be used instead of training: other data then get the same features.
    """

    num_concepts: int = 1000
    longest: int = 2
    image_size: int = 96
    width: int = 128
    epochs: int = 8
    batch_size: int = 16
    learning_rate: float = 3e-3
    seed: int = 0
    weights: str | None = None

    def build(self, dataset: VQADataset, splits: Sequence[str], root: Path) -> FeatureStore:
        """Features of the given splits: found under `root`, or computed there.

        splits: stages or split names. Raises ValueError where images or weights cannot be read.
        """
        names = list(dict.fromkeys(dataset.name_of(split) for split in splits))
        key = self._key(dataset)
        folder = root / f"concepts-{key}"
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            todo = [name for name in names if not (folder / name / "done").is_file()]
            if todo or not (folder / "meta.json").is_file():
                self._compute(dataset, todo, folder, key)
        return FeatureStore(folder)

    def _compute(self, dataset: VQADataset, splits: list[str], folder: Path, key: str) -> None:
        started = time.perf_counter()
        network, concepts = self._network(dataset, folder)
        network.eval()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        network.to(device)

        def features(images: Tensor) -> Mapping[str, Tensor]:
            grid, pooled, logits = network(images.contiguous(memory_format=torch.channels_last))
            return {"grid": grid, "pooled": pooled, "concepts": logits.sigmoid()}

        for split in splits:
            images = dataset.split(split).require_images()
            extract(
                features,
                images,
                folder / split,
                image_size=self.image_size,
                batch_size=256,
                device=device,
            )
        sizes = {"grid": self.width, "pooled": 2 * self.width, "concepts": len(concepts)}
        (folder / "meta.json").write_text(json.dumps({"sizes": sizes, "key": key}))
        seconds = time.perf_counter() - started
        Console().print(f"image features: {folder} ({seconds:.0f} s)")

    def _network(self, dataset: VQADataset, folder: Path) -> tuple[CompactCNN, ConceptVocabulary]:
        file = folder / "cnn.pt" if self.weights is None else Path(self.weights)
        if file.is_file():
            stored = torch.load(file, map_location="cpu", weights_only=True)
            concepts = ConceptVocabulary(stored["concepts"])
            network = self._untrained(len(concepts))
            network.load_state_dict(stored["state_dict"])
            return network, concepts
        if self.weights is not None:
            raise FileNotFoundError(f"features.weights={file} does not exist; null trains a CNN")
        return self._train(dataset, file)

    def _train(self, dataset: VQADataset, file: Path) -> tuple[CompactCNN, ConceptVocabulary]:
        train, val = dataset.split("train"), dataset.split("val")
        texts = image_texts(train)
        concepts = ConceptVocabulary.build(texts, self.num_concepts, self.longest)
        Console().print(
            f"Training a concept predictor on {len(texts)} images and {len(concepts)} concepts "
            "first (about 100 s for 4,000 images on 2 cores); it is kept for the next time."
        )
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            network = self._untrained(len(concepts))
            precision = train_concepts(
                network,
                (self._pixels(train, file), concepts.targets(texts)),
                (self._pixels(val, file), concepts.targets(image_texts(val))),
                file.parent,
                epochs=self.epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                seed=self.seed,
            )
        draft = file.with_suffix(".draft")
        content: dict[str, Any] = {
            "state_dict": network.cpu().state_dict(),
            "concepts": concepts.concepts,
            "val_map": precision,
        }
        torch.save(content, draft)
        draft.replace(file)
        for leftover in (*file.parent.glob("pixels_*.npy"), file.parent / "last.ckpt"):
            leftover.unlink(missing_ok=True)
        Console().print(f"concept predictor: mean average precision {precision:.3f} on {val.name}")
        return network, concepts

    def _pixels(self, split: Any, file: Path) -> Any:
        return pixels(
            split.require_images(), file.parent / f"pixels_{split.name}.npy", self.image_size
        )

    def _untrained(self, num_concepts: int) -> CompactCNN:
        return CompactCNN(num_concepts=num_concepts, width=self.width)

    def _key(self, dataset: VQADataset) -> str:
        settings = {**asdict(self), "version": _VERSION, "data": dataset.fingerprint()}
        if self.weights is not None and Path(self.weights).is_file():
            settings["weights"] = hashlib.sha256(Path(self.weights).read_bytes()).hexdigest()
        text = json.dumps(settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]
