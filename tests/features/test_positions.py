"""The expected number of positions of features equals the number that the networks compute."""

import pytest
import torch
import torchvision

from ivqa.features import (
    BackboneFeatures,
    ConceptFeatures,
    ResNetFeatures,
    VGGFeatures,
    offered_places,
)
from ivqa.features.compact_cnn import CompactCNN


@pytest.mark.parametrize("size", [32, 41, 96, 100, 127])
def test_concept_features(size: int) -> None:
    with torch.device("meta"):
        grid, pooled, logits = CompactCNN(num_concepts=3, width=8)(torch.zeros(1, 3, size, size))
    expected = {"grid": grid.shape[1], "pooled": None, "concepts": None}
    assert offered_places(ConceptFeatures(image_size=size)) == expected
    assert pooled.dim() == logits.dim() == 2


@pytest.mark.parametrize("size", [64, 90, 97, 224, 448])
@pytest.mark.parametrize(("arch", "head"), [("resnet50", ResNetFeatures), ("vgg11", VGGFeatures)])
def test_backbones(arch: str, head: type, size: int) -> None:
    with torch.device("meta"):
        network = head(torchvision.models.get_model(arch, weights=None)).eval()
        features = network(torch.zeros(1, 3, size, size))
    expected = {"grid": features["grid"].shape[1], "pooled": None}
    assert offered_places(BackboneFeatures(arch=arch, head=head, image_size=size)) == expected
    assert features["pooled"].dim() == 2


def test_places_of_other_components_are_unknown() -> None:
    assert offered_places(object()) is None
    assert offered_places(BackboneFeatures(head=torch.nn.Identity)) is None
