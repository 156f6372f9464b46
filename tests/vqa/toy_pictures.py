"""Pictures of one coloured square each, with questions about it, and modules that read pixels."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ivqa.data import BatchContents, BatchSettings, VQADataModule, VQADataset, build_vocabularies
from ivqa.features import CompactNetwork, PixelStore, TrainableFeatures
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa import VQAModule

COLORS = {"red": (220, 40, 40), "green": (40, 190, 60), "blue": (50, 60, 220)}
SIDES = {"small": (7, 10), "large": (15, 19)}  # pixels of a side: from, below
SIZE = 32
FEATURES = TrainableFeatures(
    network=partial(CompactNetwork, width=16, num_concepts=12), image_size=SIZE
)


def _picture(rng: np.random.Generator, color: str, size: str) -> Image.Image:
    """A square, anywhere on a noisy grey ground."""
    pixels = rng.normal(128, 25, (SIZE, SIZE, 3))
    side = int(rng.integers(*SIDES[size]))
    top, left = rng.integers(0, SIZE - side, 2)
    pixels[top : top + side, left : left + side] = COLORS[color]
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def write_pictures(root: Path, sizes: dict[str, int]) -> VQADataset:
    """Two questions about every picture: the color and the size of its square."""
    rng = np.random.default_rng(0)
    for split, number in sizes.items():
        folder = root / "images" / split
        folder.mkdir(parents=True)
        questions: list[dict[str, Any]] = []
        annotations: list[dict[str, Any]] = []
        for image_id in range(1, number + 1):
            color, size = (str(rng.choice(list(names))) for names in (COLORS, SIDES))
            _picture(rng, color, size).save(folder / f"p_{image_id:012d}.png")
            for text, answer in (("What color is it?", color), ("What size is it?", size)):
                ids = {"question_id": len(questions) + 1, "image_id": image_id}
                questions.append({**ids, "question": text})
                given = {"answer": answer, "answer_confidence": "yes", "answer_id": 1}
                annotations.append({**ids, "answers": [given]})
        for kind, records in (("questions", questions), ("annotations", annotations)):
            (root / f"{kind}_{split}.json").write_text(json.dumps({kind: records}))
    return VQADataset(root)


def read_pictures(dataset: VQADataset, folder: Path, name: str | None) -> VQADataModule:
    """Batches with the pixels from which a feature is computed; None for text alone."""
    train = dataset.split("train")
    features = FEATURES.build(dataset, ["train", "val"], folder)
    return VQADataModule(
        dataset,
        features if name else None,
        *build_vocabularies(train),
        AnswerVocabulary.build(train.main_answers, 5),
        contents=BatchContents(image_features=[name] if name else [], soft_targets=True),
        batching=BatchSettings(batch_size=32, group_by_image=True),
    )


def picture_module(
    data: VQADataModule, network: Callable[..., Any], name: str | None, **arguments: Any
) -> VQAModule:
    """A module with an encoder for one feature; None for a network that reads text alone."""
    sizes = {}
    if name is not None:
        assert isinstance(data.features, PixelStore)
        sizes = {name: data.features.sizes[name]}
        arguments = {"image_encoder": data.features.encoder([name]), **arguments}
    assert data.answer_vocabulary is not None
    return VQAModule(
        network=network,
        question_vocabulary=data.question_vocabulary,
        answers=data.answer_vocabulary,
        feature_sizes=sizes,
        **arguments,
    )
