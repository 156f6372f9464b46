"""features=pretrained_concepts on pictures whose colours name their concepts."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import average_precision_score
from torch import Tensor, nn

from ivqa.data import VQADataset
from ivqa.errors import UserError
from ivqa.features import FeatureStore, PretrainedConcepts
from ivqa.features.pictures import Resize
from ivqa.features.pretrained.base import PretrainedFeatures

COLORS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220)}
NUM = {"train": 60, "val": 30}


class _Pixels(nn.Module):
    """Four pixels as grid, their mean as pooled."""

    def forward(self, pixels: Tensor) -> Mapping[str, Tensor]:
        grid = pixels.float().flatten(2).transpose(1, 2) / 255  # (B, 4, 3)
        return {"grid": grid, "pooled": grid.mean(dim=1)}


@dataclass(frozen=True, kw_only=True)
class _Backbone(PretrainedFeatures):
    pooled: bool = True

    @property
    def name(self) -> str:
        return "toy"

    def load(self) -> tuple[nn.Module, Callable[[Image.Image], Tensor]]:
        return (_Pixels() if self.pooled else _GridAlone()), Resize(2)


class _GridAlone(_Pixels):
    def forward(self, pixels: Tensor) -> Mapping[str, Tensor]:
        return {"grid": super().forward(pixels)["grid"]}


def _write(root: Path, changed: Mapping[int, str] = {}) -> VQADataset:
    """Images of one colour with noise; the captions name it, except for the `changed` ones."""
    rng = np.random.default_rng(0)
    names = list(COLORS)
    for split, number in NUM.items():
        (root / "images" / split).mkdir(parents=True)
        questions, annotations, captions = [], [], []
        for at in range(number):
            image_id = at + 1000 * (split == "val")
            color = names[at % 3]
            pixels = rng.normal(COLORS[color], 40, (8, 8, 3)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / "images" / split / f"{image_id:012d}.png")
            one = {"question_id": image_id, "image_id": image_id}
            questions.append({**one, "question": "What is it?"})
            answers = [{"answer": "it", "answer_id": 1, "answer_confidence": "yes"}]
            annotations.append(
                {**one, "question_type": "what is", "answer_type": "other", "answers": answers,
                 "multiple_choice_answer": "it"}
            )  # fmt: skip
            said = changed.get(image_id, color)
            captions.append({"id": at, "image_id": image_id, "caption": f"a {said} picture"})
        contents = {
            "questions": {"questions": questions},
            "annotations": {"annotations": annotations},
            "captions": {"annotations": captions},
        }
        for kind, content in contents.items():
            (root / f"{kind}_{split}.json").write_text(json.dumps(content))
    return VQADataset(root, train="train", val="val")


def _settings(**other: Any) -> PretrainedConcepts:
    return PretrainedConcepts(
        **{"backbone": _Backbone(), "folds": 3, "epochs": 40, "learning_rate": 0.3, **other}
    )


def _concepts(store: FeatureStore, split: str) -> dict[int, np.ndarray]:
    ids = np.load(store.directory / split / "ids.npy")
    values = np.load(store.directory / split / "concepts.npy").astype(np.float32)
    return dict(zip(ids.tolist(), values, strict=True))


def test_concepts_of_new_images_and_their_average_precision(tmp_path: Path) -> None:
    dataset = _write(tmp_path / "data")
    store = _settings().build(dataset, ["train", "val"], tmp_path / "features")
    assert store.sizes == {"grid": 3, "pooled": 3, "concepts": 4}
    report = json.loads((store.directory / "concepts.json").read_text())
    assert set(report["names"]) == {"picture", *COLORS}
    found = _concepts(store, "val")
    truth = {image: list(COLORS)[(image - 1000) % 3] for image in found}
    wanted = np.array([[name in ("picture", truth[i]) for name in report["names"]] for i in found])
    scores = np.stack(list(found.values()))
    expected = average_precision_score(wanted, scores, average="macro")
    assert expected > 0.95
    assert report["mean average precision on val"] == pytest.approx(expected, abs=2e-3)
    assert report["chance level on val"] == pytest.approx(wanted.mean(), rel=1e-6)
    # The other features are those of the backbone.
    base = _Backbone().build(dataset, ["val"], tmp_path / "features")
    rows = np.arange(NUM["val"])
    for name in ("grid", "pooled"):
        torch.testing.assert_close(
            store.gather("val", rows, [name])[name], base.gather("val", rows, [name])[name]
        )


def test_a_training_image_gets_concepts_of_a_head_that_did_not_see_it(tmp_path: Path) -> None:
    dataset = _write(tmp_path / "one")
    plain = _concepts(_settings().build(dataset, ["train", "val"], tmp_path / "a"), "train")
    folds = np.random.default_rng(0).permutation(NUM["train"]) % 3  # as the component draws them
    ids = np.sort(np.array(list(plain)))
    first = ids[folds == 0]
    # Captions of images of the first fold lie; the words stay the same, so the vocabulary does.
    lies = {int(image): list(COLORS)[(int(image) + 1) % 3] for image in first[:8]}
    changed = _write(tmp_path / "two", lies)
    after = _concepts(_settings().build(changed, ["train", "val"], tmp_path / "b"), "train")
    for image in ids.tolist():
        same = np.allclose(plain[image], after[image], atol=1e-6)
        assert same == (image in first), image


def test_stored_heads_are_used_again_and_other_settings_are_stored_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = _write(tmp_path / "data")
    root = tmp_path / "features"
    store = _settings().build(dataset, ["val"], root)
    monkeypatch.setattr(PretrainedConcepts, "_fit", lambda *_: pytest.fail("trained again"))
    again = _settings().build(dataset, ["train", "val"], root)
    assert again.directory == store.directory
    assert (again.directory / "train" / "concepts.npy").is_file()
    monkeypatch.undo()
    other = _settings(backbone=_Backbone(dtype="bfloat16")).build(dataset, ["val"], root)
    heavier = _settings(weight_decay=1.0).build(dataset, ["val"], root)
    assert len({store.directory, other.directory, heavier.directory}) == 3
    (store.directory / "head.pt").write_bytes(b"damaged")
    mended = _settings().build(dataset, ["train"], root)
    assert (mended.directory / "head.pt").stat().st_size > 100


def test_other_pictures_get_what_is_stored_for_them(tmp_path: Path) -> None:
    dataset = _write(tmp_path / "data")
    store = _settings().build(dataset, ["val"], tmp_path / "features")
    ids = np.load(store.directory / "val" / "ids.npy")[:5]
    images = dataset.split("val").require_images()
    pictures = [Image.open(images.path(int(image))).convert("RGB") for image in ids]
    found = store.extract(pictures, ["concepts"])["concepts"]
    stored = store.gather("val", np.arange(5), ["concepts"])["concepts"]
    torch.testing.assert_close(found, stored, atol=2e-3, rtol=0)


def test_what_cannot_work_is_named(tmp_path: Path) -> None:
    dataset = _write(tmp_path / "data")
    with pytest.raises(UserError, match="folds=1 must be at least 2"):
        _settings(folds=1)
    with pytest.raises(UserError, match="61 folds"):
        _settings(folds=61).build(dataset, ["val"], tmp_path / "a")
    with pytest.raises(UserError, match="gives no pooled feature"):
        _settings(backbone=_Backbone(pooled=False)).build(dataset, ["val"], tmp_path / "b")
    alone = VQADataset(tmp_path / "data", train=None, val="val")
    with pytest.raises(UserError, match="needs a training split"):
        _settings().build(alone, ["val"], tmp_path / "c")
