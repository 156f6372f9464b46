"""A store without splits computes features of given pictures alone."""

from pathlib import Path

import numpy as np
import pytest
import torch

from ivqa.data import VQADataset
from ivqa.features import BackboneFeatures, ConceptFeatures

pytestmark = pytest.mark.usefixtures("on_cpu")


def test_no_split_is_computed_and_the_features_are_those_of_the_store(
    dataset: VQADataset, tmp_path: Path
) -> None:
    settings = ConceptFeatures(image_size=16, width=8, epochs=1, num_concepts=5)
    alone = settings.build(dataset, [], tmp_path / "features")
    assert not list(alone.directory.rglob("ids.npy"))
    images = dataset.split("val").require_images()
    pictures = [images.open(int(image_id)) for image_id in images.ids]
    names = ["grid", "pooled", "concepts"]
    found = alone.extract(pictures, names)
    assert alone.sizes == {name: found[name].shape[-1] for name in names}

    whole = settings.build(dataset, ["val"], tmp_path / "features")
    assert (whole.cache_key(), whole.sizes) == (alone.cache_key(), alone.sizes)
    stored = whole.gather("val", whole.rows("val", images.ids), names)
    for name in names:
        torch.testing.assert_close(found[name], stored[name], rtol=2e-3, atol=2e-3)
    again = settings.build(dataset, [], tmp_path / "features")
    assert again.sizes == whole.sizes


def test_a_backbone_has_the_sizes_of_its_network(dataset: VQADataset, tmp_path: Path) -> None:
    settings = BackboneFeatures(arch="resnet18", weights="random", image_size=32)
    store = settings.build(dataset, [], tmp_path / "features")
    assert store.sizes == {"grid": 512, "pooled": 512}
    picture = dataset.split("val").require_images().open(1)
    network = settings.head(settings.network()).eval()
    resized = picture.resize((32, 32), 2)  # bilinear
    pixels = torch.from_numpy(np.asarray(resized).copy()).permute(2, 0, 1)[None] / 255
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    normalised = (pixels - mean.view(3, 1, 1)) / std.view(3, 1, 1)
    with torch.no_grad():
        wanted = network(normalised)
    found = store.extract([picture], ["grid", "pooled"])
    torch.testing.assert_close(found["pooled"], wanted["pooled"], rtol=2e-3, atol=2e-3)
