"""Models that cannot be loaded are refused at once with one sentence."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from huggingface_hub import HfApi
from safetensors.torch import load_file, save_file

from ivqa.vqa.hf_blip import HFBlip
from ivqa.vqa.hf_classifier import HFClassifier
from ivqa.vqa.hf_generative import HFGenerative
from tiny_transformers import tiny_blip, tiny_llava, tiny_vilt

ADAPTERS = [HFClassifier, HFBlip, HFGenerative]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_hub_id_without_a_network(adapter: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise httpx.ConnectError("name or service not known")

    waited: list[float] = []
    monkeypatch.setattr(HfApi, "model_info", unreachable)
    monkeypatch.setattr(time, "sleep", waited.append)
    with pytest.raises(
        ValueError, match=r"hub id 'nobody/no-such-model' \(is the network there\?"
    ) as e:
        adapter.load("nobody/no-such-model")
    assert not waited  # from_pretrained would retry for 24 seconds
    assert "download it where there is a network and pass model.path=FOLDER" in str(e.value)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot load the folder .* with save_pretrained"):
        HFClassifier.load(str(tmp_path))


@pytest.mark.parametrize(
    ("adapter", "build", "message"),
    [
        (
            HFGenerative,
            lambda path: tiny_vilt(path, ["yes"]),
            "model of type vilt, which AutoModel",
        ),
        (HFBlip, lambda path: tiny_vilt(path, ["yes"]), "of type vilt, which BlipForQuestion"),
        (HFClassifier, tiny_blip, "BlipForQuestionAnswering writes its answers"),
        (HFClassifier, tiny_llava, "of type llava, which AutoModelForVisualQuestionAnswering"),
        # BLIP for captions is another model of the same type, without the question encoder.
        (HFGenerative, tiny_blip, "holds a BlipForQuestionAnswering, not a"),
    ],
)
def test_another_kind_of_model(
    adapter: type, build: Callable[[Path], Path], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        adapter.load(str(build(tmp_path)))
    assert "hf_blip" in str(error.value)  # the adapters are named


@pytest.mark.parametrize("adapter", [HFClassifier, HFBlip])
def test_missing_files_and_weights_of_other_sizes(adapter: type, tmp_path: Path) -> None:
    folder = tiny_blip(tmp_path) if adapter is HFBlip else tiny_vilt(tmp_path, ["yes", "no"])
    weights = load_file(folder / "model.safetensors")
    name = next(key for key in weights if key.endswith("query.weight"))
    save_file({key: weights[key] for key in weights if key != name}, folder / "model.safetensors",
              {"format": "pt"})  # fmt: skip
    with pytest.raises(ValueError, match=f"lacks 1 weights of .* such as {name}"):
        adapter.load(str(folder))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    for file in folder.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ValueError, match="tokenizer"):
        adapter.load(str(folder))


def test_an_answer_vocabulary_that_does_not_match_the_weights(tmp_path: Path) -> None:
    folder = tiny_vilt(tmp_path, ["yes", "no", "red"])
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = {"0": "yes", "1": "no"}
    config["label2id"] = {"yes": 0, "no": 1}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"classifier.* are \(3,.*config.json asks for \(2,"):
        HFClassifier.load(str(folder))
