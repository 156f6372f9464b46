"""Commands with features=trainable: each model and each part of a policy trains its own encoder."""

from pathlib import Path

import pytest
import torch

from .conftest import TINY_DIAGNOSIS, Run, metrics_of

TINY_ENCODER = ["features=trainable", "features.image_size=32", "features.network.width=16"]
DIAGNOSIS = [override for override in TINY_DIAGNOSIS if override != "features.epochs=1"]


@pytest.mark.slow
def test_a_policy_whose_parts_train_encoders_finds_beliefs(
    tiny_root: Path, run: Run, artifacts: Path, tmp_path: Path
) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", "data.test=val"]
    common = [*data, *TINY_ENCODER, *[o for o in DIAGNOSIS if "features" not in o]]
    earlier = set((artifacts / "models").glob("mlb*/**/model.ckpt"))  # of other tests
    status, printed = run("diagnose", *common, "vqa=mlb", "callbacks=default", "output_dir=found")
    assert status == 0, printed
    assert metrics_of(tmp_path / "found")["beliefs/unique_per_pair"] > 0
    (vqa,) = set((artifacts / "models").glob("mlb*/**/model.ckpt")) - earlier
    names = torch.load(vqa, weights_only=True)["state_dict"]
    assert "image_encoder.network.cnn.convolutions.0.weight" in names

    scored = [*data, *TINY_ENCODER, "model=mlb", f"ckpt={vqa}"]
    status, printed = run("evaluate", *scored, "output_dir=scored")
    assert status == 0, printed
    status, printed = run("evaluate", *scored, "features.network.num_concepts=9")
    assert status == 1
    assert "was trained with the image encoder" in printed
