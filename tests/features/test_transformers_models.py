"""Features of transformers models are those of transformers, called directly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image
from torch import Tensor

from ivqa.data import VQADataset
from ivqa.features import TransformersFeatures, offered_places

pytestmark = pytest.mark.usefixtures("on_cpu")

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"intermediate_size": 48}
PATCHES = {"image_size": 48, "patch_size": 16}
CONVOLUTIONS = {"hidden_sizes": [8, 16], "depths": [1, 1]}
SQUARE = {"height": 48, "width": 48}


def _config(kind: str) -> Any:
    if kind in ("clip", "siglip"):
        text = {**SMALL, "vocab_size": 50, "projection_dim": 24}
        joint = hf.CLIPConfig if kind == "clip" else hf.SiglipConfig
        sizes = {"projection_dim": 24} if kind == "clip" else {}
        return joint(text_config=text, vision_config={**SMALL, **PATCHES}, **sizes)
    if kind == "dinov3_vit":
        return hf.DINOv3ViTConfig(**SMALL, **PATCHES, num_register_tokens=4)
    if kind == "dinov2_with_registers":
        return hf.Dinov2WithRegistersConfig(**SMALL, **PATCHES, num_register_tokens=4)
    if kind == "swin":
        sizes = {"image_size": 64, "embed_dim": 16, "num_heads": [2, 2], "window_size": 4}
        return hf.SwinConfig(**sizes, depths=[1, 1])
    if kind == "resnet":
        return hf.ResNetConfig(embedding_size=8, **CONVOLUTIONS)
    if kind == "convnext":
        return hf.ConvNextConfig(**CONVOLUTIONS, num_stages=2)
    return {"vit": hf.ViTConfig, "deit": hf.DeiTConfig, "dinov2": hf.Dinov2Config}[kind](
        **SMALL, **PATCHES
    )


def _saved(kind: str, folder: Path, **processing: Any) -> tuple[Any, Any]:
    """A model with random weights and a processor that shows whole pictures, in a folder."""
    torch.manual_seed(5)
    model = hf.AutoModel.from_config(_config(kind)).eval()
    with torch.no_grad():  # some weights start with zeros, which would hide what is wrong
        for value in model.parameters():
            value.copy_(0.3 * torch.randn_like(value))
    processor = hf.ViTImageProcessor(
        **{"size": SQUARE, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.4]} | processing
    )
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return model, processor


def _direct(model: Any, processor: Any, dataset: VQADataset, **arguments: Any) -> Any:
    split = dataset.split("val")
    pictures = [split.require_images().open(int(i)) for i in split.image_ids]
    # Resized by Pillow: transformers resizes tensors, and rounds differently by one level of 255.
    size = processor.size["height"], processor.size["width"]
    squares = [picture.resize(size, Image.Resampling(processor.resample)) for picture in pictures]
    inputs = processor(squares, return_tensors="pt")
    with torch.inference_mode():
        return getattr(model, "get_image_features", model)(**inputs, **arguments)


def _stored(settings: TransformersFeatures, dataset: VQADataset, root: Path) -> dict[str, Tensor]:
    store = settings.build(dataset, ["val"], root)
    rows = store.rows("val", dataset.split("val").image_ids)
    return store.gather("val", rows, ["grid", "pooled"])


def _close(found: Tensor, expected: Tensor) -> None:
    scale = expected.abs().max().item()
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3 * scale)


@pytest.mark.parametrize(
    ("kind", "before", "positions"),
    [
        ("clip", 1, 9),
        ("siglip", 0, 9),
        ("vit", 1, 9),
        ("deit", 2, 9),  # a class token and a distillation token
        ("dinov2", 1, 9),
        ("dinov2_with_registers", 5, 9),
        ("dinov3_vit", 5, 9),
        ("swin", 0, 64),
        ("resnet", None, 36),
        ("convnext", None, 36),
    ],
)
def test_features_are_those_of_the_library(
    dataset: VQADataset, tmp_path: Path, kind: str, before: int | None, positions: int
) -> None:
    size = {"size": {"height": 64, "width": 64}} if kind == "swin" else {}
    model, processor = _saved(kind, tmp_path / "folder", **size)
    settings = TransformersFeatures(path=str(tmp_path / "folder"), batch_size=5)
    found = _stored(settings, dataset, tmp_path / "features")
    output = _direct(model, processor, dataset)
    hidden = output.last_hidden_state
    expected = hidden.flatten(2).mT if before is None else hidden[:, before:]
    assert found["grid"].shape[1] == positions
    _close(found["grid"], expected)
    _close(found["pooled"], output.pooler_output.flatten(1))
    assert offered_places(settings) == {"grid": positions, "pooled": None}


def test_pooled_of_clip_is_its_image_embedding(dataset: VQADataset, tmp_path: Path) -> None:
    _saved("clip", tmp_path / "folder")
    found = _stored(TransformersFeatures(path=str(tmp_path / "folder")), dataset, tmp_path / "f")
    assert (found["grid"].shape[2], found["pooled"].shape[1]) == (32, 24)


@pytest.mark.parametrize("kind", ["clip", "dinov2", "vit"])
def test_another_image_size_interpolates_the_positions(
    dataset: VQADataset, tmp_path: Path, kind: str
) -> None:
    model, processor = _saved(kind, tmp_path / "folder")
    settings = TransformersFeatures(path=str(tmp_path / "folder"), image_size=80)
    found = _stored(settings, dataset, tmp_path / "features")
    processor.size = {"height": 80, "width": 80}
    extra = {} if kind == "dinov2" else {"interpolate_pos_encoding": True}
    output = _direct(model, processor, dataset, **extra)
    assert found["grid"].shape[1] == 25
    _close(found["grid"], output.last_hidden_state[:, 1:])
    assert offered_places(settings) == {"grid": 25, "pooled": None}


def test_a_processor_that_crops_does_not_lose_the_border(tmp_path: Path) -> None:
    _saved("clip", tmp_path / "folder")
    hf.CLIPImageProcessor(
        size={"shortest_edge": 64}, crop_size=SQUARE, image_mean=[0.5] * 3, image_std=[0.25] * 3
    ).save_pretrained(tmp_path / "folder")
    _, prepare = TransformersFeatures(path=str(tmp_path / "folder")).load()
    picture = np.zeros((100, 300, 3), dtype=np.uint8)
    picture[:, -60:] = 255  # outside of the centre
    values = prepare(Image.fromarray(picture))
    assert values.shape == (3, 48, 48)
    assert values[:, 24, 0].tolist() == [-2, -2, -2]
    assert values[:, 24, -1].tolist() == [2, 2, 2]


def test_a_pooler_without_weights_is_not_used(dataset: VQADataset, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    _, processor = _saved("vit", folder)
    classifier = hf.ViTForImageClassification(_config("vit")).eval()
    classifier.save_pretrained(folder)
    found = _stored(TransformersFeatures(path=str(folder)), dataset, tmp_path / "features")
    output = _direct(classifier.vit, processor, dataset)
    _close(found["pooled"], output.last_hidden_state[:, 0])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("no processor", r"cannot be loaded: .*image processor there with save_pretrained"),
        ("no weights", r"cannot be loaded: .*save_pretrained"),
        ("missing weights", r"lacks 16 weights of ViTModel, such as .*save_pretrained"),
        ("not finite", "holds values that are not finite"),
    ],
)
def test_faults_of_a_folder_are_named(tmp_path: Path, fault: str, message: str) -> None:
    model, _ = _saved("vit", tmp_path)
    if fault == "no processor":
        (tmp_path / "preprocessor_config.json").unlink()
    elif fault == "no weights":
        (tmp_path / "model.safetensors").unlink()
    elif fault == "missing weights":
        state = {k: v for k, v in model.state_dict().items() if ".1." not in k}
        model.save_pretrained(tmp_path, state_dict=state)
    else:
        model.layernorm.weight.data[3] = torch.nan
        model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        TransformersFeatures(path=str(tmp_path)).load()


def test_an_unknown_layout_of_tokens_is_refused(tmp_path: Path) -> None:
    settings = {**SMALL, "image_size": [48, 48], "patch_size": 16, "num_detection_tokens": 10}
    hf.YolosModel(hf.YolosConfig(**settings)).save_pretrained(tmp_path)
    hf.ViTImageProcessor(size=SQUARE).save_pretrained(tmp_path)
    module, prepare = TransformersFeatures(path=str(tmp_path)).load()
    with pytest.raises(ValueError, match="YolosModel has no map of features"):
        module.eval()(prepare(Image.new("RGB", (50, 40)))[None])


def test_an_absent_model_is_reported_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    room = "ivqa.features.pretrained.transformers_models"
    monkeypatch.setattr(f"{room}.hub_answers", lambda name: False)
    with pytest.raises(ValueError, match=r"nobody/nothing cannot be loaded.*features\.path=FOLDER"):
        TransformersFeatures(path="nobody/nothing").load()
    assert offered_places(TransformersFeatures(path="nobody/nothing")) is None
    with pytest.raises(
        ValueError, match=r"there is no folder '/absent/clip'; write a model .*dinov2"
    ):
        TransformersFeatures(path="/absent/clip").load()
