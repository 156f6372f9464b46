"""Features of pictures on the CPU and on a CUDA device."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from devices import on_devices
from ivqa.data import VQADataset
from ivqa.features.compact_cnn import CompactCNN
from ivqa.features.extraction import extract
from ivqa.features.pictures import Network, Resize


@on_devices
def test_stored_features_are_those_of_the_network(
    device: str, dataset: VQADataset, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    network, images = CompactCNN(num_concepts=7, width=16).eval(), dataset.split("val").images
    resize = Resize(32)

    def compute(pixels: Tensor) -> dict[str, Tensor]:
        grid, pooled, logits = network(pixels.float() / 255)
        return {"grid": grid, "pooled": pooled, "concepts": logits.sigmoid()}

    with torch.no_grad():
        pictures = torch.stack([resize(images.open(int(one))) for one in images.ids])
        expected = {name: value.numpy() for name, value in compute(pictures).items()}
    network.to(device)
    extract(Network(compute, resize), images, tmp_path / "val", batch_size=4, device=device)
    for name, value in expected.items():
        stored = np.load(tmp_path / "val" / f"{name}.npy").astype(np.float32)
        # Half precision on the disk; a GPU may convolve in TF32, which has 10 bits as well.
        np.testing.assert_allclose(stored, value, atol=5e-3 * np.abs(value).max(), err_msg=name)
