"""What hf_generative writes around a question, and what it passes to transformers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from PIL import Image
from rich.console import Console

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.runs.context import RunContext
from ivqa.runs.trained_models import obtain_module
from ivqa.vlm.prompt_reader import Example
from ivqa.vqa.multiple_choice import choose_among
from ivqa.vqa.transformers.hf_generative import HFGenerative
from tiny_transformers import ANSWERS, QUESTIONS, Pictures, tiny_llava, tiny_paligemma, tiny_qwen

pytestmark = pytest.mark.usefixtures("on_cpu")

CONF = Path(__file__).parents[2] / "conf"
TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{% for c in m.content %}{% if c.type == 'image' %}<image>"
    "{% else %} {{ c.text }} {% endif %}{% endfor %}{% endfor %}[assistant]"
    "{% if enable_thinking %} <think>{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tiny_llava(tmp_path_factory.mktemp("llava"))
    (place / "chat_template.jinja").write_text(TEMPLATE)
    return place


def _images(*index: int) -> ImageBatch:
    return ImageBatch(torch.tensor([7, 8, 9]), torch.tensor(index), source=Pictures())


def _examples() -> list[Example]:
    return [
        Example(Pictures().open(4), "is it red", "no"),
        Example(Pictures().open(5), "what", "2"),
    ]


def test_prompts_have_system_and_examples(folder: Path, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {
        "examples": _examples(),
        "num_examples": 2,
        "prompt": "Q {question}",
    }
    model = HFGenerative.load(str(folder), system="Be brief.", **arguments)
    assert model.reader.text("how many") == (
        "[system] Be brief. [user]<image> Q is it red [assistant] no [user]<image> Q what "
        "[assistant] 2 [user]<image> Q how many [assistant]"
    )
    plain = tiny_paligemma(tmp_path / "plain")
    prompt = "<image>answer en {question}"
    several = HFGenerative.load(str(plain), **{**arguments, "prompt": prompt})
    assert several.reader.text("how many") == (
        "<image>answer en is it red no\n<image>answer en what 2\n<image>answer en how many"
    )
    with pytest.raises(UserError, match="system needs a chat template"):
        HFGenerative.load(str(plain), prompt=prompt, system="Be brief.")
    with pytest.raises(UserError, match="num_examples=3: there are 2 training questions"):
        HFGenerative.load(str(folder), **{**arguments, "num_examples": 3})
    deaf = tiny_llava(tmp_path / "deaf")
    (deaf / "chat_template.jinja").write_text("<image>{{ messages[-1].content[1].text }}")
    with pytest.raises(UserError, match="leaves out the text of the system"):
        HFGenerative.load(str(deaf), system="Be brief.")


@pytest.mark.parametrize("build", [tiny_llava, tiny_qwen])
@torch.no_grad()
def test_scores_with_examples_are_those_of_the_whole_prompt(
    build: Callable[[Path], Path], tmp_path: Path
) -> None:
    prompt = "<|vision_start|> <|image_pad|> <|vision_end|> {question} answer :"
    prompt = prompt if build is tiny_qwen else "{question}"
    shown: dict[str, Any] = {"examples": _examples(), "num_examples": 2}
    model = HFGenerative.load(str(build(tmp_path)), prompt=prompt, **shown)
    scores = model.log_scores(_images(0, 2, 1), QUESTIONS[:3], ["yes", "dark red"])
    tokenizer = model.processor.tokenizer
    for row, (at, question) in enumerate(zip((7, 9, 8), QUESTIONS, strict=False)):
        pictures = [one.picture for one in _examples()] + [Pictures().open(at)]
        text = model.reader.text(question)
        inputs = model.processor(text=text, images=pictures, return_tensors="pt")
        for column, answer in enumerate(["yes", "dark red"]):
            own = [*tokenizer(answer, add_special_tokens=False)["input_ids"], 3]
            tokens = torch.tensor([own])
            whole = dict(inputs)
            for name in {"input_ids", "attention_mask", "mm_token_type_ids"} & whole.keys():
                more = tokens[:, :-1] if name == "input_ids" else torch.ones_like(tokens[:, :-1])
                more = more * 0 if name == "mm_token_type_ids" else more
                whole[name] = torch.cat([whole[name], more], dim=1)
            logits = model.model(**whole).logits
            expected = logits[:, -len(own) :].log_softmax(dim=2).gather(2, tokens[:, :, None]).sum()
            torch.testing.assert_close(scores[row, column], expected, atol=1e-4, rtol=0)


def test_examples_come_from_the_training_split(folder: Path, tmp_path: Path) -> None:
    def context(number: int) -> RunContext:
        overrides = [
            "model=hf_generative", f"model.path={folder}", f"model.module.num_examples={number}",
            f"artifacts={tmp_path}", "data.images={train: 4, val: 4, test: 4}", "features=none",
        ]  # fmt: skip
        with initialize_config_dir(str(CONF), version_base="1.3"):
            cfg = compose("evaluate", overrides)
        return RunContext(cfg, instantiate(cfg.data), None, Console(quiet=True))

    model = obtain_module(context(3))[0]
    train = context(3).dataset.split("train")
    asked = set(zip(train.questions, train.main_answers, strict=True))
    shown = model.reader.examples
    assert len(shown) == 3
    assert {(one.asked, one.answer) for one in shown} <= asked
    assert all(isinstance(one.picture, Image.Image) for one in shown)
    assert obtain_module(context(0))[0].reader.examples == ()
    assert "examples" not in context(0).model_identity
    assert "examples" in context(3).model_identity


def test_thoughts_have_tokens_of_their_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = HFGenerative.load(str(folder), max_new_tokens=2, thought_tokens=5)
    generate, asked = model.model.generate, []

    def recorded(**inputs: Any) -> Any:
        asked.append((inputs["max_new_tokens"], inputs["input_ids"].shape[1]))
        return generate(input_ids=inputs["input_ids"], max_new_tokens=2, **{
            name: inputs[name] for name in inputs if name not in ("input_ids", "max_new_tokens")
        })  # fmt: skip

    monkeypatch.setattr(model.model, "generate", recorded)
    decoded = ["it is red </think> blue", "what"]
    monkeypatch.setattr(model.processor.tokenizer, "batch_decode", lambda *_, **__: decoded[:1])
    assert model.answer(_images(0), QUESTIONS[:1]) == ["blue"]
    assert asked[0][0] == 7
    assert model._writing_reader.text("what").endswith("<think>")
    assert not model.reader.text("what").endswith("<think>")  # answers are scored without thoughts


def test_choices_are_listed_and_read_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = HFGenerative.load(str(folder), choice_prompt="{question} The letter, please.")
    read = []

    def written(pictures: Any, index: Any, questions: list[str], reader: Any = None) -> list[str]:
        read.extend(reader.text(question) for question in questions)
        return ["(B)" if "red" in question else "it is a cat" for question in questions]

    monkeypatch.setattr(model, "_written", written)
    choices = [["no", "yes"], ["a cat", "a big cat"]]
    chosen = choose_among(model, _images(0, 1), ["is it red", "what"], choices)
    assert chosen == ["yes", "a cat"]
    assert read[0] == ("[user]<image> is it red\nA. no\nB. yes The letter, please. [assistant]")
    scored = HFGenerative.load(str(folder))
    found = choose_among(scored, _images(0), ["is it red"], [ANSWERS])
    best = scored.log_scores(_images(0), ["is it red"], ANSWERS)[0].argmax()
    assert found == [ANSWERS[int(best)]]


def test_arguments_are_passed_to_transformers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eager = HFGenerative.load(str(folder), loading={"attn_implementation": "eager"})
    assert eager.model.config._attn_implementation == "eager"
    load, given = HFGenerative.architecture.from_pretrained, []

    def recorded(path: str, **arguments: Any) -> Any:
        given.append(arguments)
        return load(path, **arguments)

    monkeypatch.setattr(HFGenerative.architecture, "from_pretrained", recorded)
    placed = HFGenerative.load(str(folder), loading={"device_map": {"": "cpu"}})
    assert given[0]["device_map"] == {"": "cpu"}
    scores = [one.log_scores(_images(0), QUESTIONS[:1], ANSWERS) for one in (eager, placed)]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=0)
    with pytest.raises(UserError, match=r"loading\.dtype: set model\.module\.dtype"):
        HFGenerative.load(str(folder), loading={"dtype": "float16"})
    with pytest.raises(UserError, match="is never run here"):
        HFGenerative.load(str(folder), loading={"trust_remote_code": True})
    with pytest.raises(UserError, match=r"cannot load the folder .*bitsandbytes|quant"):
        HFGenerative.load(str(folder), loading={"quantization_config": {"load_in_4bit": True}})
    assert json.loads((folder / "config.json").read_text())["model_type"] == "llava"
