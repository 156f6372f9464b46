"""Claim: assembling batches never holds training up.

Step rate of training model=ivqa_vae's network with batches from the datamodule (memory-mapped
features, tokenised questions), against the same training on one batch already in memory (in turn,
same sizes): 1.0 would be no cost at all, 0.9 is the bound.
"""

import json
import tempfile
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.timing import paired
from ivqa.data import BatchContents, BatchSettings, VQADataModule, build_vocabularies
from ivqa.features.store import FeatureStore
from ivqa.generators import GeneratorModule, VariationalGenerator
from ivqa.scenes import ScenesDataset
from ivqa.store.integrity import MANIFEST, write_manifest

STEPS, IMAGES = 20, 2000
SIZES = {"grid": 128, "pooled": 256, "concepts": 500}


def run() -> list[dict[str, Any]]:
    """One row a set of image features: step rates of both, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        images = {"train": IMAGES, "val": 2, "test": 2}
        dataset = ScenesDataset(Path(folder) / "data", images=images)
        dataset.prepare()
        store = _store(dataset, Path(folder) / "features")
        kinds = (("concepts",), ("concepts", "pooled"), ("grid",))
        rows = [_row(dataset, store, names) for names in kinds]
    return rows


def _row(dataset: ScenesDataset, store: FeatureStore, names: tuple[str, ...]) -> dict[str, Any]:
    words = build_vocabularies(dataset.split("train"))
    datamodule = VQADataModule(
        dataset,
        store,
        *words,
        contents=BatchContents(image_features=names),
        batching=BatchSettings(batch_size=128),
    )
    module = GeneratorModule(
        network=partial(VariationalGenerator, embedding_size=256, hidden_size=256),
        question_vocabulary=words[0],
        answer_words=words[1],
        feature_sizes={name: SIZES[name] for name in names},
    )
    optimizer = torch.optim.Adam(module.parameters())
    memory = list(islice(datamodule.train_dataloader(), STEPS))

    def train(batches: Any) -> None:
        for batch in batches:
            optimizer.zero_grad()
            (-module.network(batch).elbo.mean()).backward()
            optimizer.step()

    loaded, synthetic = paired(
        lambda: train(islice(datamodule.train_dataloader(), STEPS)),
        lambda: train(islice(cycle(memory), STEPS)),
    )
    return {
        "image features": ", ".join(names),
        "steps/s from the datamodule": round(STEPS / loaded, 1),
        "steps/s from memory": round(STEPS / synthetic, 1),
        "ratio": round(synthetic / loaded, 3),
    }


def _store(dataset: ScenesDataset, root: Path) -> FeatureStore:
    """Features of the right shapes; their values do not matter here."""
    rng = np.random.default_rng(0)
    ids = dataset.split("train").require_images().ids
    folder = root / "train"
    folder.mkdir(parents=True)
    np.save(folder / "ids.npy", ids)
    for name, size in SIZES.items():
        shape = (len(ids), 144, size) if name == "grid" else (len(ids), size)
        np.save(folder / f"{name}.npy", rng.random(shape, dtype=np.float32).astype(np.float16))
    write_manifest(folder / MANIFEST, sorted(folder.glob("*.npy")))
    (root / "meta.json").write_text(json.dumps({"sizes": SIZES, "key": "x"}))
    return FeatureStore(root)
