"""A model that is trained on other data than those it is asked about: model.trained_on."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ivqa.data import VQADataset
from ivqa.features import ConceptFeatures
from ivqa.scenes import generate_scenes
from ivqa.store.weights import read_weights

from .conftest import TINY_DIAGNOSIS, TINY_FEATURES, Run, metrics_of


@pytest.fixture(scope="module")
def balanced_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data") / "balanced"
    sizes = {"train": 40, "val": 10}
    return generate_scenes(root, images=sizes, balanced=True, workers=1, progress=False)


def _on(place: str, root: Path) -> list[str]:
    return [f"data@{place}.trained_on=vqa_json", f"{place}.trained_on.root={root}"]


def test_words_answers_and_features_of_the_training_travel_with_the_model(
    run: Run, tiny_root: Path, balanced_root: Path, tmp_path: Path
) -> None:
    artifacts = tmp_path / "own"  # holds the features of one network
    data = ["data=vqa_json", f"data.root={tiny_root}", *TINY_FEATURES, f"artifacts={artifacts}"]
    first, second = tmp_path / "first", tmp_path / "second"
    command = ["model=mlb2", "model.epochs=1", *data, *_on("model", balanced_root)]
    status, printed = run("evaluate", *command, f"output_dir={first}")
    assert status == 0, printed
    assert "No trained mlb2 for this data" in printed
    [folder] = (artifacts / "models").glob("mlb2-*")
    stored = read_weights(folder / "model.ckpt")["component"]
    answers = json.loads((balanced_root / "annotations_train.json").read_text())["annotations"]
    own = {one["multiple_choice_answer"] for one in answers}
    asked = VQADataset(tiny_root).split("train").main_answers
    assert set(stored["answers"]) == own != set(asked)
    # It answers the questions of data=, in their number and order.
    predictions = json.loads((first / "predictions.json").read_text())
    split = VQADataset(tiny_root).split("val")
    assert [one["question_id"] for one in predictions] == split.question_ids.tolist()
    assert {one["answer"] for one in predictions} <= own
    # The images of the training have features of the network of data=: the same model is one
    # that is trained on the other data with the stored weights of that network.
    [network] = (artifacts / "features").glob("concepts-*/cnn.pt")
    alone = ["model=mlb", "model.epochs=1", *TINY_FEATURES, f"features.weights={network}"]
    alone += ["data=vqa_json", f"data.root={balanced_root}"]
    status, printed = run("train", *alone, f"output_dir={second}")
    assert status == 0, printed
    weights = read_weights(second / "checkpoints" / "best.ckpt")["state_dict"]
    for name, value in read_weights(folder / "model.ckpt")["state_dict"].items():
        torch.testing.assert_close(value, weights[name], rtol=0, atol=0)
    # As a part of a policy it is the same model.
    small = [f"data.root={tiny_root}", "data=vqa_json", *TINY_DIAGNOSIS, "callbacks=default"]
    small += [f"artifacts={artifacts}"]
    small += ["vqa=mlb2", *_on("vqa", balanced_root), f"output_dir={tmp_path / 'diagnosis'}"]
    status, printed = run("diagnose", *small)
    assert status == 0, printed
    assert "No trained mlb2" not in printed
    accuracies = [metrics_of(tmp_path / name)["vqa/accuracy"] for name in ("first", "diagnosis")]
    assert accuracies[0] == accuracies[1]


def test_other_images_get_the_features_of_the_same_network(
    tiny_root: Path, balanced_root: Path, tmp_path: Path
) -> None:
    component = ConceptFeatures(image_size=32, width=16, epochs=1)
    data, others = VQADataset(tiny_root), VQADataset(balanced_root)
    own = component.build(data, ["train"], tmp_path)
    found = component.build_for_others(own, others, ["val"], tmp_path)
    image = int(others.split("val").image_ids[0])
    picture = others.split("val").require_images().open(image)
    rows = found.rows("val", np.array([image]))
    expected = own.extract([picture], ["grid", "concepts"])
    # Images of one batch and of another differ by rounding.
    for name, value in found.gather("val", rows, ["grid", "concepts"]).items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=5e-4)
    alone = component.build(others, ["val"], tmp_path)
    other = alone.gather("val", rows, ["grid"])["grid"]
    assert float((other - expected["grid"]).abs().max()) > 2e-3  # one trained on them
    assert len({own.cache_key(), found.cache_key(), alone.cache_key()}) == 3


def test_data_that_are_not_there_are_reported_before_any_work(
    run: Run, tiny_root: Path, tmp_path: Path
) -> None:
    command = ["model=mlb2", "data=vqa_json", f"data.root={tiny_root}"]
    status, printed = run("evaluate", *command, *_on("model", tmp_path / "absent"))
    assert status == 1
    assert f"{tmp_path / 'absent'} does not exist" in " ".join(printed.split())
    assert "training" not in printed
    vqa = ["vqa=mlb2", *_on("vqa", tiny_root)]
    status, printed = run("diagnose", "experiment=repair", *vqa, *command[1:])
    assert status == 1
    assert "vqa=mlb2 is trained on other data (vqa.trained_on)" in " ".join(printed.split())
