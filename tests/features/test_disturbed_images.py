"""Features of disturbed images are computed from the disturbed pixels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ivqa.data import BatchContents, VQADataModule, VQADataset, build_vocabularies
from ivqa.features import ConceptFeatures, FeatureStore
from ivqa.robustness import Blur, RobustnessCallback


@pytest.fixture
def data(dataset: VQADataset, tmp_path: Path) -> VQADataModule:
    settings = ConceptFeatures(image_size=16, width=8, epochs=1, num_concepts=5)
    features = settings.build(dataset, ["train", "val"], tmp_path / "features")
    words = build_vocabularies(dataset.split("train"))
    contents = BatchContents(image_features=["grid", "pooled"])
    return VQADataModule(dataset, features, *words, contents=contents)


def test_features_are_computed_from_the_disturbed_pixels(data: VQADataModule) -> None:
    split = data.dataset.split("val")
    ids = split.image_ids[[5, 0, 5]]
    stored = data.images_of("val", ids)
    same = data.images_of("val", ids, lambda image, image_id: image)
    for name in ("grid", "pooled"):
        torch.testing.assert_close(
            same.feature(name)[same.index], stored.feature(name)[stored.index]
        )
    black = data.images_of("val", ids, lambda image, _: Image.new("RGB", image.size))
    assert black.feature("grid").shape == stored.feature("grid").shape
    torch.testing.assert_close(black.feature("pooled")[0], black.feature("pooled")[1])
    assert not torch.allclose(black.feature("pooled"), stored.feature("pooled"))
    assert black.source is not None
    assert black.source.open(int(ids[0])).getextrema() == ((0, 0),) * 3
    assert data.features is not None
    alone = FeatureStore(data.features.directory)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="was opened as files alone"):
        alone.extract([black.source.open(int(ids[0]))], ["grid"])


def test_a_model_gets_the_disturbed_images(data: VQADataModule) -> None:
    """An answerer that records how bright the images are, from their pixels."""

    class Brightness:
        answers = None
        seen: list[float]

        def __init__(self) -> None:
            self.seen = []

        def answer(self, images: Any, questions: list[str]) -> list[str]:
            sources = [np.asarray(images.source.open(i)).mean() for i in images.ids.tolist()]
            self.seen.append(float(np.mean(sources)))
            return ["yes"] * len(questions)

        def log_scores(self, images: Any, questions: Any, answers: Any = None) -> Any:
            raise NotImplementedError

    class Darker(Blur):
        def disturbed_image(self, image: Image.Image, image_id: int, level: int) -> Image.Image:
            return image.point(lambda value: value * (7 - level) / 7)

    answerer = Brightness()
    metrics = RobustnessCallback(Darker()).metrics(answerer, data, "val")
    assert metrics["robustness/r_score"] == 1
    expected = [answerer.seen[0] * (7 - level) / 7 for level in range(8)]
    np.testing.assert_allclose(answerer.seen, expected, atol=1)
