"""Models that cannot be loaded are refused at once with one sentence."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import HfApi
from safetensors.torch import load_file, save_file
from tiny_vlm import FAMILIES, without_num2words
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.smolvlm import processing_smolvlm

from ivqa.vqa.transformers.hf_blip import HFBlip
from ivqa.vqa.transformers.hf_classifier import HFClassifier
from ivqa.vqa.transformers.hf_generative import HFGenerative
from tiny_transformers import TEXT, save_tiny, tiny_blip, tiny_llava, tiny_tokenizer, tiny_vilt

ADAPTERS = [HFClassifier, HFBlip, HFGenerative]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_hub_id_without_a_network(adapter: type, monkeypatch: pytest.MonkeyPatch) -> None:
    class OfAnyClientError(Exception):  # huggingface_hub moved from requests to httpx to httpx2
        pass

    def unreachable(*_: object, **__: object) -> None:
        raise OfAnyClientError("name or service not known")

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
    with pytest.raises(
        ValueError,
        match=r"cannot load the folder .*: it has no config.json; write model and",
    ):
        HFClassifier.load(str(tmp_path))


def test_no_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / "file"):
        (tmp_path / "file").write_text("")
        with pytest.raises(ValueError, match=f"there is no folder '{path}'; write a model and its"):
            HFGenerative.load(str(path))


_PROCESSOR = ["chat_template.jinja", "processor_config.json", "tokenizer.json",
              "tokenizer_config.json"]  # fmt: skip


@pytest.mark.parametrize("family", ["Qwen2.5-VL", "LLaVA-1.5", "InstructBLIP"])
@pytest.mark.parametrize(
    ("removed", "message"),
    [
        (
            ["model.safetensors"],
            r"has no weights \(\*.safetensors .* with model.save_pretrained",
        ),
        (_PROCESSOR, r"has no processor \(processor_config.json .* with processor.save_pretrained"),
        (_PROCESSOR[2:], r"tokenizer.* there with (processor.)?save_pretrained"),
    ],
)
def test_a_folder_that_lacks_a_part(
    family: str, removed: list[str], message: str, tmp_path: Path
) -> None:
    folder = FAMILIES[family].build(tmp_path / "model")
    for name in removed:
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "qformer_tokenizer", ignore_errors=True)
    with pytest.raises(ValueError, match=message) as error:
        HFGenerative.load(str(folder))
    assert str(folder) in str(error.value)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_model_that_reads_text_only(adapter: type, tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    model = LlamaForCausalLM(LlamaConfig(**TEXT, vocab_size=len(tokenizer)))
    save_tiny(model, tokenizer, tmp_path)
    with pytest.raises(ValueError, match="of type llama, which reads text only and sees no image"):
        adapter.load(str(tmp_path))


def test_weights_that_are_not_yet_downloaded(tmp_path: Path) -> None:
    folder = tiny_llava(tmp_path)
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match="its weights are damaged, or not yet downloaded"):
        HFGenerative.load(str(folder))


def test_code_of_a_repository_is_never_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_llava(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "moondream1", "auto_map": {"AutoConfig": "moondream.MoondreamConfig"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "moondream.py").write_text("raise SystemExit('run')")
    with pytest.raises(ValueError, match="code from its repository, which is never run here"):
        HFGenerative.load(str(folder))
    assert "[y/N]" not in "".join(capfd.readouterr())  # a job in the background cannot answer


def test_a_package_that_a_processor_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        without_num2words(patch)
        folder = FAMILIES["SmolVLM"].build(tmp_path)
    monkeypatch.setattr(processing_smolvlm, "num2words", None)
    with pytest.raises(ValueError, match=r"`num2words` is required .*; install it in"):
        HFGenerative.load(str(folder))


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
