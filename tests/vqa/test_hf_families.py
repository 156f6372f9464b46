"""Every family of generative models in miniature, against transformers' own `generate`."""

import json
import shutil
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tiny_vlm import FAMILIES, without_num2words
from tiny_vlm_parts import Photographs
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ivqa.data.batches.batch import ImageBatch
from ivqa.vlm.prompt_reader import PromptReader
from ivqa.vqa.transformers.hf_generative import HFGenerative
from tiny_transformers import ANSWERS, QUESTIONS

# Two prompts about pictures of one shape are of equal length and are read together.
ASKED = [*QUESTIONS, "is it blue"]
IMAGES = [7, 9, 8, 8, 7, 10]


@pytest.fixture(scope="module", autouse=True)
def _num2words() -> object:
    with pytest.MonkeyPatch.context() as patch:
        yield without_num2words(patch)


@pytest.fixture(scope="module", params=FAMILIES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return FAMILIES[name].build(tmp_path_factory.mktemp("family"))


@pytest.fixture(scope="module")
def model(name: str, folder: Path) -> HFGenerative:
    return _load(name, folder)


def _load(name: str, folder: Path, **further: object) -> HFGenerative:
    return HFGenerative.load(str(folder), prompt=FAMILIES[name].prompt, max_new_tokens=4, **further)


def _images(index: list[int] | None = None) -> ImageBatch:
    at = torch.tensor([0, 2, 1, 1, 0, 3] if index is None else index)
    return ImageBatch(torch.tensor([7, 8, 9, 10]), at, source=Photographs())


def _inputs(model: HFGenerative, question: str, picture: Image.Image) -> dict[str, Tensor]:
    """The inputs of one question, as the documentation of transformers prepares them."""
    processor = model.processor
    if processor.chat_template is None:
        text = model.reader.prompt.replace("{question}", question)
        inputs = processor(text=text, images=picture, return_tensors="pt")
    else:
        content = [{"type": "image", "image": picture}, {"type": "text", "text": question}]
        inputs = processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=True,
            return_dict=True, return_tensors="pt",
        )  # fmt: skip
    return {key: value for key, value in inputs.items() if key != "labels"}


def _encoder(model: HFGenerative) -> tuple[object, str]:
    """The owner and the name of the function that encodes pixels."""
    base = model.model.base_model
    if hasattr(base, "get_image_features"):
        return base, "get_image_features"
    return base.vision_model, "forward"  # Llama 3.2 Vision


def _words(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Tokens that are whole words: their text is read as them again, also beside another word."""
    texts = [tokenizer.decode([at, at]) for at in range(len(tokenizer))]
    read = tokenizer(texts, add_special_tokens=False)["input_ids"]
    whole = [at for at in range(len(tokenizer)) if read[at] == [at, at]]
    spaced = [at for at in whole if texts[at].startswith(" ")]  # byte pairs
    return [at for at in spaced or whole if at not in tokenizer.all_special_ids]


def test_scores_are_the_probabilities_of_generate(model: HFGenerative) -> None:
    """Generate writes two words; their probabilities and that of the end token are the score."""
    tokenizer = model.processor.tokenizer
    forced = model.model.generation_config.forced_bos_token_id
    words = _words(tokenizer)
    suppressed = [at for at in range(len(tokenizer) + 8) if at not in [*words, forced]]
    for question, image_id in zip(ASKED, IMAGES, strict=True):
        picture = Photographs().open(image_id)
        told = model.model.generate(
            **_inputs(model, question, picture), max_new_tokens=3 + (forced is not None),
            do_sample=False, output_logits=True, return_dict_in_generate=True,
            suppress_tokens=suppressed,
        )  # fmt: skip
        logits = torch.cat(told.logits).log_softmax(dim=1)[-3:]
        two = told.sequences[0, -3:-1]
        expected = logits[[0, 1], two].sum() + logits[2, tokenizer.eos_token_id]
        answer = tokenizer.decode(two)
        assert tokenizer(answer, add_special_tokens=False)["input_ids"] == two.tolist()
        image = ImageBatch(torch.tensor([image_id]), torch.tensor([0]), source=Photographs())
        score = model.log_scores(image, [question], [answer])
        torch.testing.assert_close(score[0, 0], expected, atol=1e-4, rtol=0)


def test_written_answers_are_those_of_generate(model: HFGenerative) -> None:
    written = model.answer(_images(), ASKED)
    for answer, question, image_id in zip(written, ASKED, IMAGES, strict=True):
        inputs = _inputs(model, question, Photographs().open(image_id))
        tokens = model.model.generate(**inputs, max_new_tokens=4, do_sample=False)[0]
        prompt = inputs["input_ids"].shape[1]
        if torch.equal(tokens[:prompt], inputs["input_ids"][0]):
            tokens = tokens[prompt:]
        assert answer == model.processor.tokenizer.decode(tokens, skip_special_tokens=True).strip()


# What a generation_config.json may ask for instead of the most probable text.
DECODINGS: dict[str, dict[str, Any]] = {
    "penalties": {
        "repetition_penalty": 1.8, "no_repeat_ngram_size": 1, "min_new_tokens": 3, "top_k": 1,
        "guidance_scale": 3.0, "exponential_decay_length_penalty": [1, 0.2], "min_length": 99,
        "suppress_tokens": list(range(5, 20)), "bad_words_ids": [[20], [21]],
        "begin_suppress_tokens": [3], "forced_eos_token_id": 24, "stop_strings": ["a"],
    },
    "beams": {
        "num_beams": 3, "length_penalty": -2.0, "num_return_sequences": 2, "max_length": 7,
        "do_sample": True, "temperature": 9.0, "typical_p": 0.5,
    },
}  # fmt: skip


@pytest.mark.parametrize("decoding", DECODINGS)
def test_the_decoding_of_a_folder_does_not_change_answers(
    name: str, folder: Path, model: HFGenerative, decoding: str, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "generation_config.json"
    config = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**config, **DECODINGS[decoding]}))
    other = _load(name, tmp_path)
    assert other.answer(_images(), ASKED) == model.answer(_images(), ASKED)
    scores = [one.log_scores(_images(), ASKED, ANSWERS[:2]) for one in (model, other)]
    torch.testing.assert_close(*scores)


def test_each_token_of_an_answer_is_the_most_probable_one(
    model: HFGenerative, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate, told = model.model.generate, []

    def recorded(**inputs: Any) -> Tensor:
        told.append(generate(**inputs, output_logits=True, return_dict_in_generate=True))
        return told[-1].sequences

    recorded.__signature__ = signature(generate)  # type: ignore[attr-defined]
    monkeypatch.setattr(model.model, "generate", recorded)
    forced = model.model.generation_config.forced_bos_token_id
    model.answer(_images(), ASKED)
    for one in told:
        steps = one.sequences[:, -len(one.logits) :]
        best = torch.stack(one.logits).argmax(dim=2).T
        ended = torch.isin(steps, torch.tensor(model.ends)).cumsum(dim=1).cumsum(dim=1) > 1
        free = ~ended if forced is None else ~ended & (torch.arange(steps.shape[1]) > 0)
        assert free.any()
        assert torch.equal(steps[free], best[free])


def test_a_batch_equals_single_questions(name: str, folder: Path, model: HFGenerative) -> None:
    single = _load(name, folder, batch_size=1, answer_batch_size=3)
    scores = [one.log_scores(_images(), ASKED, ANSWERS) for one in (model, single)]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=0)
    assert model.answer(_images(), ASKED) == single.answer(_images(), ASKED)


def test_kept_prompts_equal_prompts_that_are_read_again(
    name: str, folder: Path, model: HFGenerative
) -> None:
    again = _load(name, folder, cache=False)
    assert not again.writer.cache
    scores = [one.log_scores(_images(), ASKED, ANSWERS) for one in (model, again)]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=0)


def test_another_picture_changes_every_score(model: HFGenerative) -> None:
    right = model.log_scores(_images(), ASKED, ANSWERS)
    wrong = model.log_scores(_images([1, 0, 2, 2, 1, 0]), ASKED, ANSWERS)
    assert ((right - wrong).abs().amax(dim=1) > 1e-3).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_side_of_the_padding_does_not_matter(
    side: str, name: str, folder: Path, model: HFGenerative
) -> None:
    padded = _load(name, folder)
    padded.processor.tokenizer.padding_side = side
    if hasattr(padded.processor, "qformer_tokenizer"):
        padded.processor.qformer_tokenizer.padding_side = side
        padded.reader = PromptReader(
            padded.model, padded.processor, prompt=FAMILIES[name].prompt, chat=None
        )
    scores = [one.log_scores(_images(), ASKED, ANSWERS) for one in (model, padded)]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=0)
    assert model.answer(_images(), ASKED) == padded.answer(_images(), ASKED)


def test_a_picture_is_encoded_as_often_as_the_table_says(name: str, folder: Path) -> None:
    model = _load(name, folder)
    owner, name_of = _encoder(model)
    encode, calls = getattr(owner, name_of), []

    def counted(pixel_values: Tensor, **named: object) -> object:
        calls.append(len(pixel_values))
        return encode(pixel_values, **named)

    counted.__signature__ = signature(encode)  # type: ignore[attr-defined]
    setattr(owner, name_of, counted)
    model.log_scores(_images(), ASKED, ANSWERS)
    if FAMILIES[name].encoded == "picture":
        assert len(calls) == 1
    else:
        assert sum(calls) == len(ASKED)


def test_a_prompt_is_read_as_often_as_the_table_says(name: str, folder: Path) -> None:
    model = _load(name, folder, answer_batch_size=1)
    assert model.reader.chat == FAMILIES[name].chat
    reads = []

    def hook(_: object, __: object, inputs: dict[str, object]) -> None:
        seen = ("pixel_values", "mm_encoder_outputs")
        reads.append(any(inputs.get(key) is not None for key in seen))

    model.model.register_forward_pre_hook(hook, with_kwargs=True)
    model.log_scores(_images([1]), ASKED[:1], ANSWERS)
    assert sum(reads) == (1 if FAMILIES[name].answers == "all answers" else len(ANSWERS))


def test_the_table_of_the_documentation_has_these_families() -> None:
    page = (Path(__file__).parents[2] / "docs" / "vqa_models.md").read_text()
    section = page.split("### Families of generative models")[1].split("\n\n")[1]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in section.splitlines()[2:]]
    assert [row[0] for row in rows] == list(FAMILIES)
    for name, _, encoded, answers, prompt in rows:
        family = FAMILIES[name]
        assert (encoded, answers) == (family.encoded, family.answers), name
        assert (prompt == "chat template") == family.chat, name
