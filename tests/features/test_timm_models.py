"""Features of timm networks are those of timm, called directly with its own transform."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ivqa.data import VQADataset
from ivqa.features import TimmFeatures, offered_places

timm = pytest.importorskip("timm")

pytestmark = pytest.mark.usefixtures("on_cpu")


def _saved(arch: str, place: Path, **arguments: Any) -> Any:
    """A network with random weights, saved as a file or, with timm's config.json, as a folder."""
    torch.manual_seed(7)
    network = timm.create_model(arch, **arguments).eval()
    with torch.no_grad():  # some networks start with zeros, which would hide what is wrong
        for value in network.parameters():
            value.add_(0.02 * torch.randn_like(value))
    if place.suffix == ".safetensors":
        save_file(network.state_dict(), place)
    elif place.suffix:
        torch.save({"state_dict": network.state_dict(), "epoch": 3}, place)
    else:
        timm.models.save_for_hf(network, place, safe_serialization=True)
    return network


def _direct(network: Any, dataset: VQADataset, size: int) -> tuple[Tensor, Tensor]:
    """forward_features and the input of the classifier, for the whole pictures of split val."""
    config = timm.data.resolve_model_data_config(network)
    squash = {"input_size": (3, size, size), "crop_pct": 1, "crop_mode": "squash"}
    transform = timm.data.create_transform(**config | squash)
    split = dataset.split("val")
    images = torch.stack([transform(split.require_images().open(int(i))) for i in split.image_ids])
    with torch.inference_mode():
        features = network.forward_features(images)
        return features, network.forward_head(features, pre_logits=True)


def _stored(settings: TimmFeatures, dataset: VQADataset, root: Path) -> dict[str, Tensor]:
    store = settings.build(dataset, ["val"], root)
    rows = store.rows("val", dataset.split("val").image_ids)
    return store.gather("val", rows, ["grid", "pooled"])


def _close(found: Tensor, expected: Tensor) -> None:
    # Features are stored in float16, which has 11 bits.
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pt"])
def test_a_map_of_a_convolutional_network(dataset: VQADataset, tmp_path: Path, name: str) -> None:
    network = _saved("test_resnet", tmp_path / name)
    settings = TimmFeatures(arch="test_resnet", weights=str(tmp_path / name), batch_size=5)
    found = _stored(settings, dataset, tmp_path / "features")
    maps, pooled = _direct(network, dataset, 160)
    assert maps.shape[2:] == (5, 5)
    _close(found["grid"][:, 7], maps[:, :, 1, 2])
    _close(found["grid"], maps.flatten(2).mT)
    _close(found["pooled"], pooled)
    assert offered_places(settings) == {"grid": 25, "pooled": None}


def test_tokens_without_class_token_at_another_size(dataset: VQADataset, tmp_path: Path) -> None:
    network = _saved("test_vit", tmp_path / "w.pt", img_size=96)
    settings = TimmFeatures(arch="test_vit", weights=str(tmp_path / "w.pt"), image_size=96)
    found = _stored(settings, dataset, tmp_path / "features")
    tokens, pooled = _direct(network, dataset, 96)
    assert tokens.shape[1] == 1 + 36
    _close(found["grid"], tokens[:, 1:])
    _close(found["pooled"], pooled)
    assert offered_places(settings) == {"grid": 36, "pooled": None}


def test_a_folder_names_its_architecture(dataset: VQADataset, tmp_path: Path) -> None:
    network = _saved("test_vit3", tmp_path / "folder", num_classes=3)
    settings = TimmFeatures(arch="test_resnet", weights=str(tmp_path / "folder"))
    found = _stored(settings, dataset, tmp_path / "features")
    tokens, pooled = _direct(network, dataset, 160)
    _close(found["grid"], tokens[:, network.num_prefix_tokens :])
    _close(found["pooled"], pooled)
    assert offered_places(settings) == {"grid": 100, "pooled": None}
    assert [file.name[:12] for file in (tmp_path / "features").iterdir()] == ["timm_folder-"]


def test_weights_without_a_classifier_and_of_other_classes(tmp_path: Path) -> None:
    for classes in (0, 7):
        network = _saved("test_resnet", tmp_path / "w.pt", num_classes=classes)
        loaded = TimmFeatures(arch="test_resnet", weights=str(tmp_path / "w.pt")).network()
        for name, value in network.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], value), name


def test_other_weights_are_other_features(dataset: VQADataset, tmp_path: Path) -> None:
    settings = TimmFeatures(arch="test_resnet", weights=str(tmp_path / "w.pt"))
    keys = set()
    for seed_like in ("test_resnet", "test_vit"):
        _saved(seed_like, tmp_path / "w.pt")
        keys.add(settings.cache_key(dataset))
    keys.add(TimmFeatures(**{**vars(settings), "dtype": "bfloat16"}).cache_key(dataset))
    same = TimmFeatures(**{**vars(settings), "batch_size": 3}).cache_key(dataset)
    assert len(keys) == 3
    assert same in keys


def test_bfloat16_is_near_float32(dataset: VQADataset, tmp_path: Path) -> None:
    settings = {"arch": "test_resnet", "weights": "random", "image_size": 64}
    full, half = (
        _stored(TimmFeatures(**settings, dtype=dtype), dataset, tmp_path)
        for dtype in ("auto", "bfloat16")
    )
    error = (full["grid"] - half["grid"]).abs().mean() / full["grid"].abs().mean()
    assert 1e-4 < error < 3e-2  # bfloat16 has 8 bits


def test_normalisation_and_interpolation_are_the_models(tmp_path: Path) -> None:
    module, prepare = TimmFeatures(arch="tf_efficientnet_lite0", weights="random").load()
    assert module.mean.flatten().tolist() == [0.5] * 3
    assert (prepare.size, prepare.resampling.name) == (224, "BICUBIC")


@pytest.mark.parametrize("fault", ["another network", "no weights", "a missing weight"])
def test_weights_that_do_not_fit_are_named(tmp_path: Path, fault: str) -> None:
    file = tmp_path / "w.pt"
    state = timm.create_model("test_resnet").state_dict()
    if fault == "another network":
        torch.save(timm.create_model("test_vit").state_dict(), file)
    elif fault == "no weights":
        file.write_bytes(b"no weights")
    else:
        del state["layer1.0.conv1.weight"]
        torch.save(state, file)
    with pytest.raises(
        ValueError, match=r"w\.pt does not hold the weights of test_resnet.*features\.arch"
    ):
        TimmFeatures(arch="test_resnet", weights=str(file)).load()


def test_the_messages_for_absent_weights_have_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="nowhere is neither a file nor a folder"):
        TimmFeatures(weights=str(tmp_path / "nowhere")).load()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty does not hold.*Config file not.*save_for_hf"):
        TimmFeatures(weights=str(tmp_path / "empty")).load()
    monkeypatch.setattr("ivqa.features.pretrained.timm_models.hub_answers", lambda name: False)
    with pytest.raises(ValueError, match=r"cannot be downloaded.*features\.weights=FILE"):
        TimmFeatures(arch="test_vit.r160_in1k").load()
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match=r"features=timm needs the package timm.*'ivqa\[photos\]'"):
        TimmFeatures(weights="random").load()


def test_a_network_without_a_map_is_refused() -> None:
    module, _ = TimmFeatures(arch="crossvit_tiny_240", weights="random").load()
    with pytest.raises(ValueError, match="CrossVit has no map of features"):
        module.eval()(torch.zeros(1, 3, 240, 240, dtype=torch.uint8))
    assert offered_places(TimmFeatures(arch="crossvit_tiny_240", weights="random")) is None
    assert offered_places(TimmFeatures(arch="hf-hub:someone/model")) is None


def test_features_do_not_depend_on_training_layers(dataset: VQADataset, tmp_path: Path) -> None:
    network = TimmFeatures(arch="test_resnet", weights="random", image_size=64).on_device("cpu")
    batch = torch.randint(0, 255, (4, 3, 64, 64), dtype=torch.uint8)
    together = network.compute(batch)["pooled"]
    alone = torch.cat([network.compute(image[None])["pooled"] for image in batch])
    torch.testing.assert_close(together, alone)
