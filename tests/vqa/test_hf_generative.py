"""Each architecture in miniature against one plain forward pass for each question and answer."""

import json
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa.transformers.hf_generative import HFGenerative
from tiny_transformers import (
    ANSWERS,
    QUESTIONS,
    Pictures,
    tiny_blip2,
    tiny_llava,
    tiny_paligemma,
    tiny_qwen,
)

pytestmark = pytest.mark.usefixtures("on_cpu")

# How each model is built, its prompt, and the text that it then reads.
KINDS: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "llava": (tiny_llava, "{question}", "<image> question : {question} answer :"),
    "qwen": (tiny_qwen, *["<|vision_start|> <|image_pad|> <|vision_end|> {question} answer :"] * 2),
    "paligemma": (tiny_paligemma, *["<image>answer en {question}"] * 2),
    "blip2": (tiny_blip2, *["question : {question} answer :"] * 2),
}
IMAGES = [7, 9, 8, 8, 7]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return KINDS[kind][0](tmp_path_factory.mktemp(kind))


def _images(source: Pictures | None) -> ImageBatch:
    return ImageBatch(torch.tensor([7, 8, 9]), torch.tensor([0, 2, 1, 1, 0]), source=source)


@torch.no_grad()
def _naive(model: HFGenerative, text: str, image: Image.Image, answer: str) -> Tensor:
    """log p of an answer and its end token, from the logits of one sequence, without a cache."""
    inputs = model.processor(text=text, images=image, return_tensors="pt")
    inputs.pop("labels", None)
    own = model.processor.tokenizer(answer, add_special_tokens=False)["input_ids"]
    tokens = torch.tensor([[*own, 3]])  # [SEP] ends an answer
    if model.writer.encodes:
        decoded = torch.cat([torch.zeros(1, 1, dtype=torch.int64), tokens[:, :-1]], dim=1)
        logits = model.model(**inputs, decoder_input_ids=decoded).logits
    else:
        read = {"input_ids": tokens[:, :-1], "attention_mask": torch.ones_like(tokens[:, :-1])}
        read["mm_token_type_ids"] = torch.zeros_like(tokens[:, :-1])
        read["token_type_ids"] = torch.ones_like(tokens[:, :-1])  # PaliGemma: read causally
        for name, more in read.items():
            if name in inputs:
                inputs[name] = torch.cat([inputs[name], more], dim=1)
        logits = model.model(**inputs).logits[:, -tokens.shape[1] :]
    return logits.log_softmax(dim=2).gather(2, tokens[:, :, None]).sum()


def test_scores_equal_a_plain_pass_for_every_pair(kind: str, folder: Path) -> None:
    source = Pictures()
    model = HFGenerative.load(str(folder), prompt=KINDS[kind][1], answer_batch_size=8)
    scores = model.log_scores(_images(source), QUESTIONS, ANSWERS)
    assert sorted(source.opened) == [7, 8, 9]
    expected = [
        [
            _naive(model, KINDS[kind][2].replace("{question}", q), source.open(image), answer)
            for answer in ANSWERS
        ]
        for q, image in zip(QUESTIONS, IMAGES, strict=True)
    ]
    torch.testing.assert_close(scores, torch.tensor(expected), atol=1e-4, rtol=0)


def test_scores_do_not_depend_on_the_batch_size(kind: str, folder: Path) -> None:
    whole, single = (
        HFGenerative.load(str(folder), prompt=KINDS[kind][1], batch_size=size) for size in (16, 1)
    )
    scores = [
        model.log_scores(_images(Pictures()), QUESTIONS, ANSWERS) for model in (whole, single)
    ]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=0)
    answers = [model.answer(_images(Pictures()), QUESTIONS) for model in (whole, single)]
    assert answers[0] == answers[1]


def test_an_image_is_encoded_once_for_all_questions_about_it(kind: str, folder: Path) -> None:
    model = HFGenerative.load(str(folder), prompt=KINDS[kind][1])
    encode, seen = model.model.base_model.get_image_features, []

    def counted(pixel_values: Tensor, **further: object) -> object:
        seen.append(len(further.get("image_grid_thw", pixel_values)))  # type: ignore[arg-type]
        return encode(pixel_values, **further)

    counted.__signature__ = signature(encode)  # type: ignore[attr-defined]
    model.model.base_model.get_image_features = counted
    model.log_scores(_images(Pictures()), QUESTIONS, ANSWERS)
    assert seen == [3]


def test_written_answers_are_the_model_s_greedy_ones(kind: str, folder: Path) -> None:
    model = HFGenerative.load(str(folder), prompt=KINDS[kind][1], max_new_tokens=5)
    written = model.answer(_images(Pictures()), QUESTIONS)
    text = KINDS[kind][2].replace("{question}", QUESTIONS[1])
    inputs = model.processor(text=text, images=Pictures().open(9), return_tensors="pt")
    inputs.pop("labels", None)
    tokens = model.model.generate(**inputs, max_new_tokens=5, do_sample=False)[0]
    prompt = inputs["input_ids"].shape[1]
    tokens = tokens if model.writer.encodes else tokens[prompt:]
    assert written[1] == model.processor.tokenizer.decode(tokens, skip_special_tokens=True).strip()


def test_scores_without_a_cache_are_the_same(tmp_path: Path) -> None:
    folder = str(tiny_llava(tmp_path))
    cached, uncached = (HFGenerative.load(folder, cache=cache) for cache in (True, False))
    scores = [
        model.log_scores(_images(Pictures()), QUESTIONS, ANSWERS) for model in (cached, uncached)
    ]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=0)


def test_probabilities_of_all_end_tokens_are_added(tmp_path: Path) -> None:
    model = HFGenerative.load(str(tiny_llava(tmp_path)))
    either = []
    for ends in ([3], [2], [3, 2]):
        model.ends = ends
        either.append(model.log_scores(_images(Pictures()), QUESTIONS, ["cat"]).exp())
    torch.testing.assert_close(either[0] + either[1], either[2])


@pytest.mark.parametrize("listed", [3, [3], [3, 3], []])
def test_an_end_token_counts_once(listed: int | list[int], tmp_path: Path) -> None:
    folder = tiny_llava(tmp_path)
    scores = []
    for given in (3, listed):
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": given}))
        model = HFGenerative.load(str(folder))
        scores.append(model.log_scores(_images(Pictures()), QUESTIONS, ["cat"]))
    torch.testing.assert_close(*scores)


def test_probabilities_of_all_forms_of_an_answer_are_added(tmp_path: Path) -> None:
    folder = str(tiny_llava(tmp_path))
    forms = ["{answer}", "a {answer}", "{answer} is {Answer}", "{Answer}"]
    summed = HFGenerative.load(folder, answer_forms=forms, answer_batch_size=3)
    single = HFGenerative.load(folder)
    scores = summed.log_scores(_images(Pictures()), QUESTIONS, ["cat", "2"])
    cat = ["cat", "a cat", "cat is Cat", "Cat"]
    two = ["2", "a 2", "2 is 2"]  # "2" in upper case is "2", and counts once
    for column, texts in enumerate((cat, two)):
        own = single.log_scores(_images(Pictures()), QUESTIONS, texts)
        expected = own.double().exp().sum(dim=1).log()
        torch.testing.assert_close(scores[:, column].double(), expected, atol=1e-4, rtol=0)
    assert summed.log_scores(_images(Pictures()), QUESTIONS, []).shape == (5, 0)


def test_a_closed_set_restricts_the_answers(tmp_path: Path) -> None:
    model = HFGenerative.load(str(tiny_llava(tmp_path)), answers=AnswerVocabulary(ANSWERS))
    scores = model.log_scores(_images(Pictures()), QUESTIONS)
    best = [ANSWERS[index] for index in scores.argmax(dim=1).tolist()]
    assert model.answer(_images(Pictures()), QUESTIONS) == best


def test_a_model_that_can_think_answers_at_once(tmp_path: Path) -> None:
    model = HFGenerative.load(str(tiny_llava(tmp_path)))
    template = model.processor.chat_template
    model.processor.chat_template = (
        template + "{% if enable_thinking is not defined or enable_thinking %} <think>{% endif %}"
    )
    assert model.reader.text("is it") == "<image> question : is it answer :"


@pytest.mark.parametrize(
    ("tags", "expected"),
    [(None, ["yes", ""]), ([], ["it is. </think> yes", "<think> it is"])],
)
def test_thoughts_are_no_part_of_a_written_answer(
    tags: list[tuple[str, str]] | None, expected: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    model = HFGenerative.load(str(tiny_llava(tmp_path)), thoughts=tags)
    wrote = iter(["it is. </think> yes", "<think> it is"])

    def decoded(tokens: Tensor, **_: object) -> list[str]:
        return [next(wrote) for _ in tokens]

    monkeypatch.setattr(model.processor.tokenizer, "batch_decode", decoded)
    assert model.answer(_images(Pictures()).select(torch.tensor([0, 1])), ["is it"] * 2) == expected


def test_a_picture_that_the_processor_refuses_is_described(tmp_path: Path) -> None:
    """Qwen-VL refuses pictures that are 200 times longer than wide."""

    class Strips(Pictures):
        def open(self, image_id: int) -> Image.Image:
            return Image.new("RGB", (3, 900)) if image_id == 8 else super().open(image_id)

    folder = tiny_qwen(tmp_path)
    (folder / "chat_template.jinja").write_text(
        "{% for c in messages[0].content %}{% if c.type == 'image' %}"
        "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}{% endfor %}"
    )
    model = HFGenerative.load(str(folder))
    message = r"'<\|vision.*how many.*' with a picture of 3 x 900 .* ratio .*; remove or pad such"
    with pytest.raises(ValueError, match=message):
        model.answer(_images(Strips()), QUESTIONS)


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{{ raise_exception('roles must\nalternate') }}", "fails with 'roles must alternate'"),
        ("{% if %}", "fails with 'Expected an expression"),
        ("{{ messages[0]['content'] + 'x' }}", "fails with 'can only concatenate list"),
        ("{{ messages[1]['content'] }}", "fails with 'list object has no element 1'"),
        ("<image> answer :", "leaves out the text of the user"),
    ],
)
def test_a_chat_template_that_fails_is_described(template: str, fault: str, tmp_path: Path) -> None:
    folder = tiny_llava(tmp_path)
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(UserError) as raised:
        HFGenerative.load(str(folder))
    assert f"the chat template of {folder} {fault}" in str(raised.value)
    assert "chat_template.jinja, or set model.chat=false" in str(raised.value)


def test_an_input_of_each_token_that_cannot_grow_is_refused(tmp_path: Path) -> None:
    model = HFGenerative.load(str(tiny_llava(tmp_path)))
    processor = model.processor

    class Marking:
        tokenizer, chat_template = processor.tokenizer, processor.chat_template
        apply_chat_template = processor.apply_chat_template

        def __call__(self, **inputs: object) -> dict[str, Tensor]:
            read = dict(processor(**inputs))
            return {**read, "image_embeds_position_mask": torch.zeros_like(read["input_ids"])}

    model.reader.processor = Marking()
    with pytest.raises(ValueError, match="reads image_embeds_position_mask of each token"):
        model.log_scores(_images(Pictures()), QUESTIONS, ["cat"])


def test_bad_input_is_named(tmp_path: Path) -> None:
    folder = str(tiny_llava(tmp_path))
    model = HFGenerative.load(folder)
    images = _images(Pictures())
    with pytest.raises(ValueError, match="in its own words: say which answers to score"):
        model.log_scores(images, QUESTIONS)
    with pytest.raises(ValueError, match="answer 'a <image>' holds the token that stands for"):
        model.log_scores(images, QUESTIONS, ["a <image>"])
    with pytest.raises(ValueError, match=r"must have \{question\} in it"):
        HFGenerative.load(folder, prompt="what?")
    with pytest.raises(ValueError, match="write the image token"):
        HFGenerative.load(folder, chat=False).answer(images, QUESTIONS)
    with pytest.raises(ValueError, match=r"answer_forms: 'yes' must have \{answer\} or"):
        HFGenerative.load(folder, answer_forms=["{answer}", "yes"])
    with pytest.raises(ValueError, match="answer_forms is empty"):
        HFGenerative.load(folder, answer_forms=[])
    with pytest.raises(ValueError, match="1 questions for 5 images"):
        model.answer(images, ["what"])
    model.model.generation_config.eos_token_id = [3, 4000]
    with pytest.raises(ValueError, match="end token 4000 is not one of this model's"):
        HFGenerative(model.model, model.processor)
    model.model.generation_config.eos_token_id = None
    model.processor.tokenizer.eos_token = None
    with pytest.raises(ValueError, match="has no end token"):
        HFGenerative(model.model, model.processor)
