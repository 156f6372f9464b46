"""Image encoders that models train: their output, and the store of pixels that they read."""

import math
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image

from ivqa.data import VQADataset
from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.features import CompactNetwork, TimmNetwork, TrainableFeatures, offered_places

NAMES = ("grid", "pooled", "concepts")
SMALL = partial(CompactNetwork, width=8, num_concepts=5)


def _pixels(number: int = 3, size: int = 32) -> torch.Tensor:
    return torch.randint(256, (number, 3, size, size), dtype=torch.uint8)


def _settled(encoder: Any, size: int = 32) -> Any:
    """The encoder in evaluation mode, after its normalisation has seen a batch."""
    encoder.train()(_pixels(8, size))
    return encoder.eval()


def test_the_compact_encoder_computes_what_its_cnn_computes() -> None:
    encoder = _settled(TrainableFeatures(network=SMALL, image_size=32).encoder(NAMES))
    pixels = _pixels(70)  # more than one pass
    grid, pooled, logits = encoder.network.cnn(pixels.double().float() / 255)
    found = encoder(pixels)
    assert list(found) == list(NAMES)
    torch.testing.assert_close(found["grid"], grid, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found["pooled"], pooled, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found["concepts"], logits.sigmoid(), atol=1e-5, rtol=1e-4)
    assert grid.shape == (70, 16, 8)


# timm's smallest models; the last gives its map as (B, H, W, C).
@pytest.mark.parametrize("arch", ["test_resnet", "test_vit", "test_mambaout"])
def test_the_timm_encoder_computes_what_timm_computes(arch: str) -> None:
    network = partial(TimmNetwork, arch=arch, num_concepts=5)
    encoder = _settled(TrainableFeatures(network=network, image_size=64).encoder(NAMES), 64)
    pixels = _pixels(2, 64)
    model = encoder.network.network
    config = timm.data.resolve_model_data_config(model)
    mean, std = (torch.tensor(config[name])[:, None, None] for name in ("mean", "std"))
    inputs = (pixels.float() / 255 - mean) / std
    with torch.no_grad():
        last = model.forward_features(inputs)
        pooled = model(inputs)  # there is no classifier
        found = encoder(pixels)
    if arch == "test_resnet":
        grid = torch.stack([last[:, :, row, col] for row in range(2) for col in range(2)], dim=1)
    elif arch == "test_vit":
        grid = last[:, 1:]  # after the class token
        assert grid.shape[1] == (64 // 16) ** 2
    else:
        grid = torch.stack([last[:, row, col] for row in range(2) for col in range(2)], dim=1)
    torch.testing.assert_close(found["grid"], grid, atol=1e-4, rtol=1e-3)
    torch.testing.assert_close(found["pooled"], pooled, atol=1e-4, rtol=1e-3)
    local = encoder.network.local
    odds = (grid @ local.weight.T + local.bias).exp().mean(dim=1)
    torch.testing.assert_close(found["concepts"], odds / (1 + odds), atol=1e-4, rtol=1e-3)


def test_timm_starts_from_the_weights_of_a_file(tmp_path: Path) -> None:
    torch.manual_seed(5)
    model = timm.create_model("test_resnet", num_classes=7)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    found = TimmNetwork(
        names=["grid"], image_size=64, arch="test_resnet", weights=str(tmp_path / "weights.pth")
    )
    expected = model.state_dict()
    for name, value in found.network.state_dict().items():
        assert torch.equal(value, expected[name]), name
    (tmp_path / "weights.pth").write_bytes(b"no weights")
    with pytest.raises(UserError, match=r"weights.pth: the weights of test_resnet cannot be"):
        TimmNetwork(
            names=["grid"], image_size=64, arch="test_resnet", weights=str(tmp_path / "weights.pth")
        )


def test_an_image_is_encoded_once_and_only_if_it_is_asked_about() -> None:
    passed = []

    def means(pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        passed.append(len(pixels))
        return {"pooled": pixels.float().mean(dim=(2, 3))}

    pixels = _pixels(5)
    images = ImageBatch(torch.arange(5) + 10, torch.tensor([3, 1, 3, 3]), pixels=pixels)
    found = images.encoded(means)
    assert passed == [2]
    assert found.ids[found.index].tolist() == [13, 11, 13, 13]
    expected = pixels.float().mean(dim=(2, 3))[images.index]
    torch.testing.assert_close(found.feature("pooled")[found.index], expected)
    assert images.encoded(None) is images
    everything = ImageBatch(torch.arange(5), torch.arange(5), pixels=pixels).encoded(means)
    assert everything.pixels is pixels
    with pytest.raises(UserError, match="from pixels, which this batch does not carry"):
        ImageBatch(torch.arange(5), torch.arange(5), pooled=expected).encoded(means)
    with pytest.raises(UserError, match="no image feature 'pixels'"):
        images.feature("pixels")


def test_weights_that_nothing_reads_are_not_trained() -> None:
    for names in (["grid"], ["concepts"]):
        network = SMALL(names=names, image_size=32)
        sum(value.sum() for value in network(torch.rand(2, 3, 32, 32)).values()).backward()
        for name, value in network.named_parameters():
            assert (value.grad is not None) == value.requires_grad, name


def test_the_store_holds_the_resized_pixels(dataset: VQADataset, tmp_path: Path) -> None:
    features = TrainableFeatures(network=SMALL, image_size=32)
    store = features.build(dataset, ["train", "val"], tmp_path / "features")
    assert store.sizes == {"grid": 8, "pooled": 16, "concepts": 5}
    split = dataset.split("val")
    ids = split.image_ids[[5, 0, 5]]
    images = split.require_images()
    expected = [
        np.asarray(images.open(int(number)).resize((32, 32), Image.Resampling.BILINEAR))
        for number in ids
    ]
    for opened in (store, pickle.loads(pickle.dumps(store))):
        found = opened.gather("val", opened.rows("val", ids), ["grid"])
        assert list(found) == ["pixels"]
        assert found["pixels"].dtype == torch.uint8
        assert np.array_equal(found["pixels"].permute(0, 2, 3, 1), np.stack(expected))
    outside = store.extract([images.open(int(number)) for number in ids], ["grid"])
    assert torch.equal(outside["pixels"], found["pixels"])
    with pytest.raises(UserError, match=r"no pixels of image 99 of split 'val' \(1 missing\)"):
        store.rows("val", np.array([1, 99]))
    with pytest.raises(UserError, match="pixels of split 'test' were not stored"):
        store.rows("test", np.array([1]))


def test_pixels_are_stored_once_for_all_networks_of_a_size(
    dataset: VQADataset, tmp_path: Path
) -> None:
    def built(**settings: Any) -> Any:
        arguments: dict[str, Any] = {"network": SMALL, "image_size": 32} | settings
        return TrainableFeatures(**arguments).build(dataset, ["train"], tmp_path)

    store = built()
    file = store.directory / "train.npy"
    modified = file.stat().st_mtime_ns
    others = [
        built(network=partial(SMALL, width=16)),
        built(network=partial(TimmNetwork, arch="test_resnet")),
        built(learning_rate_scale=0.1),
    ]
    assert file.stat().st_mtime_ns == modified
    assert {other.directory for other in others} == {store.directory}
    larger = built(image_size=40)
    assert larger.directory != store.directory
    keys = {store.cache_key(), larger.cache_key(), *(other.cache_key() for other in others)}
    assert len(keys) == 5
    assert built().cache_key() == store.cache_key()
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    built()
    assert file.read_bytes() == content


def test_the_content_of_initial_weights_is_part_of_the_key(
    dataset: VQADataset, tmp_path: Path
) -> None:
    def key(name: str) -> str:
        network = partial(TimmNetwork, arch="test_resnet", weights=str(tmp_path / name))
        return str(TrainableFeatures(network=network).identity(dataset))

    for name, content in (("a.pth", b"1"), ("b.pth", b"1"), ("c.pth", b"2")):
        (tmp_path / name).write_bytes(content)
    assert key("a.pth") == key("b.pth") != key("c.pth")


def test_places_are_known_before_anything_is_stored() -> None:
    for size, side in ((96, 12), (50, 7)):
        features = TrainableFeatures(network=SMALL, image_size=size)
        assert offered_places(features) == {"grid": side**2, "pooled": None, "concepts": None}
        assert features.encoder(["grid"])(_pixels(1, size))["grid"].shape[1] == side**2
    vit = TrainableFeatures(network=partial(TimmNetwork, arch="test_vit"), image_size=64)
    assert offered_places(vit) == {"grid": 16, "pooled": None, "concepts": None}


def test_building_leaves_the_random_numbers_of_the_caller(
    dataset: VQADataset, tmp_path: Path
) -> None:
    before = torch.get_rng_state()
    TrainableFeatures(network=SMALL, image_size=32).build(dataset, ["val"], tmp_path)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"arch": "resnet1800"}, "arch=resnet1800 is not a model of timm"),
        ({"weights": "absent.pth"}, "weights=absent.pth is not a file; give a state_dict of"),
    ],
)
def test_what_timm_cannot_do_is_reported(settings: dict[str, str], message: str) -> None:
    features = TrainableFeatures(network=partial(TimmNetwork, **settings), image_size=32)
    with pytest.raises(UserError, match=message):
        features.encoder(["grid"])


class Wide(torch.nn.Module):
    """A convolution that is wider than the images."""

    def __init__(self, names: Any, image_size: int) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 4, kernel_size=40)

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"pooled": self.layer(images).mean(dim=(2, 3))}


def test_any_network_is_possible_if_it_takes_the_images() -> None:
    assert TrainableFeatures(network=Wide, image_size=40).places() == {"pooled": None}
    with pytest.raises(UserError, match=r"takes no images of 32 x 32 pixels \(.*Kernel size"):
        TrainableFeatures(network=Wide, image_size=32).places()


def test_a_logit_is_a_smooth_maximum() -> None:
    """The bias that the compact CNN starts with gives a probability of 0.12."""
    network = SMALL(names=["concepts"], image_size=32).eval()
    torch.nn.init.zeros_(network.cnn.local.weight)
    expected = 1 / (1 + math.exp(2))
    assert torch.allclose(network(torch.rand(1, 3, 32, 32))["concepts"], torch.tensor(expected))
