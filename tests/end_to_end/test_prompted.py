"""A vision-language model that is told to ask, untrained: benchmark, asking, diagnosis."""

import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tiny_writer import tiny_writer
from transformers import AutoModelForImageTextToText, AutoProcessor

from ivqa.answer_aware import ServedQuestioner
from ivqa.data import VQADataset
from ivqa.errors import UserError
from ivqa.pools import read_pools
from ivqa.text.vocabulary import Vocabulary
from vqa.chat_server import ChatServer, said, serving

from .conftest import TINY_BENCHMARK, TINY_FEATURES, Run, metrics_of

PROMPT = "Ask a short question about the picture whose answer is '{}'. Write the question alone."


@pytest.fixture(scope="module")
def folder(tiny_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny LLaVA that knows the words of the data and of the prompt."""
    splits = [VQADataset(tiny_root).split(name) for name in ("train", "val")]
    texts = [text for split in splits for text in (*split.questions, *split.main_answers)]
    words = Vocabulary.build([*texts, PROMPT]).words
    return tiny_writer(tmp_path_factory.mktemp("writer"), [*words, "'"])


@cache
def _loaded(folder: Path) -> tuple[Any, Any]:
    return AutoModelForImageTextToText.from_pretrained(folder), AutoProcessor.from_pretrained(
        folder
    )


@torch.no_grad()
def log_probability(folder: Path, image: Image.Image, answer: str, question: str) -> float:
    """log p(q | I, a) by one call of transformers with labels, without this package."""
    model, processor = _loaded(folder)
    prompt = processor(text=f"<image> {PROMPT.format(answer)} ", images=image, return_tensors="pt")
    own = processor.tokenizer(question, add_special_tokens=False)["input_ids"]
    written = torch.tensor([[*own, processor.tokenizer.eos_token_id]])
    ids = torch.cat([prompt["input_ids"], written], dim=1)
    labels = ids.clone()
    labels[:, : -written.shape[1]] = -100
    given = {"pixel_values": prompt["pixel_values"], "attention_mask": torch.ones_like(ids)}
    return -float(model(input_ids=ids, labels=labels, **given).loss) * written.shape[1]


def _data(root: Path) -> list[str]:
    return ["data=vqa_json", f"data.root={root}", *TINY_FEATURES]


def test_the_benchmark_ranks_pools_by_the_probabilities_of_transformers(
    run: Run, folder: Path, tiny_root: Path, artifacts: Path, tmp_path: Path
) -> None:
    told = [*TINY_BENCHMARK, "split=val", "model.benchmark.pools.num_pairs=3"]
    model = ["model=prompted", f"model.path={folder}", *_data(tiny_root)]
    status, printed = run("evaluate", *model, *told, f"output_dir={tmp_path}")
    assert status == 0, printed
    assert "No trained" not in printed
    metrics = metrics_of(tmp_path)
    # Batches have no words of an untrained model, so that a validation would mean nothing.
    assert not [name for name in metrics if name.startswith("val/")]
    assert metrics["unique_of_3"] > 1
    stored = json.loads((tmp_path / "pools.json").read_text())
    pools = read_pools(artifacts / "pools" / stored["file"])
    split = VQADataset(tiny_root).split("val")
    images, reciprocal_ranks = split.require_images(), []
    for number in range(len(pools)):
        rows = [row for row, pair in enumerate(pools.pair.tolist()) if pair == number]
        image = images.open(int(pools.image_ids[number]))
        scores = {
            row: log_probability(folder, image, pools.answers[number], pools.questions[row])
            for row in rows
        }
        correct = max(score for row, score in scores.items() if pools.kinds[row] == 0)
        wrong = [score for row, score in scores.items() if pools.kinds[row] != 0]
        reciprocal_ranks.append(1 / (1 + sum(score >= correct for score in wrong)))
    expected = sum(reciprocal_ranks) / len(pools)
    assert metrics["pools/mean_reciprocal_rank"] == pytest.approx(expected)


def test_a_picture_and_an_answer_need_no_data(run: Run, folder: Path, tmp_path: Path) -> None:
    picture = tmp_path / "photo.png"
    Image.effect_noise((40, 40), 90).convert("RGB").save(picture)
    absent = ["data=vqa_json", f"data.root={tmp_path / 'absent'}"]
    model = ["model=prompted", f"model.path={folder}", *absent, "model.module.max_length=4"]
    given = [f"image={picture}", "answer=[yes,dark red]", "num_latents=20", "num_questions=3"]
    status, printed = run("evaluate", *model, *given, f"output_dir={tmp_path / 'run'}")
    assert status == 0, printed
    lines = (tmp_path / "run" / "questions.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["answer"] for record in records] == ["yes", "dark red"]
    for record in records:
        assert len(record["questions"]) == 3
        for asked in record["questions"]:
            image = Image.open(picture).convert("RGB")
            expected = log_probability(folder, image, record["answer"], asked["question"])
            assert asked["probability"] == pytest.approx(math.exp(expected), rel=1e-3)


def test_its_questions_find_beliefs_and_nothing_is_trained_for_them(
    run: Run, folder: Path, tiny_root: Path, artifacts: Path, tmp_path: Path
) -> None:
    chosen = ["model=prompted_search", f"model.path={folder}", "vqa=prior", *_data(tiny_root)]
    before = {path.name for path in (artifacts / "models").glob("*")}
    told = ["split=val", "num_images=4", "num_latents=12", "callbacks=default"]
    status, printed = run("diagnose", *chosen, *told, f"output_dir={tmp_path}")
    assert status == 0, printed
    made = {path.name for path in (artifacts / "models").glob("*")} - before
    assert {name.partition("-")[0] for name in made} <= {"prior"}
    lines = (tmp_path / "beliefs.jsonl").read_text().splitlines()
    beliefs = [json.loads(line) for line in lines]
    metrics = metrics_of(tmp_path)
    assert len(beliefs) == metrics["beliefs/count"] > 0
    assert {(one["source"], one["legality"]) for one in beliefs} == {("supervised", 1.0)}
    assert metrics["supervised/legal"] == 1
    assert metrics["beliefs/unique_per_pair"] == metrics["supervised/unique_per_pair"]
    assert not [name for name in metrics if name.startswith("rl/")]
    images = VQADataset(tiny_root).split("val").require_images()
    # A sample is scored by the tokens that were drawn: mostly the words, without a question mark.
    exact = 0
    for one in beliefs[:20]:
        image = images.open(one["image_id"])
        text = one["question"].removesuffix("?")
        expected = log_probability(folder, image, one["answer"], text)
        exact += abs(expected - one["log_likelihood"]) < 1e-3
    assert exact >= 4  # the others have dots, colons and quotation marks, which are no words


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Asks a question that depends on the answer; of several samples, every third is a refusal."""

    def reply(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        answer = prompt.split("'")[1]
        texts = [f'"What  is {answer}, here?"', "Is it?", "Why"]
        number = body.get("n", 1)
        chosen = [texts[at % 3 if body["temperature"] else 0] for at in range(number)]
        found = said(*chosen)
        for choice in found["choices"]:
            if choice["message"]["content"] == "Why":
                choice["message"]["refusal"] = "I cannot help."
        return found

    with serving(ChatServer(reply)) as running:
        yield running


def test_a_served_model_samples_and_scores_nothing(
    run: Run, server: ChatServer, tiny_root: Path, tmp_path: Path
) -> None:
    model = ["model=prompted_openai", "model.path=tiny", f"model.base_url={server.url}"]
    told = ["split=val", "model.benchmark.num_samples=4", "model.benchmark.temperature=0.7"]
    status, printed = run("evaluate", *model, *_data(tiny_root), *told, f"output_dir={tmp_path}")
    assert status == 0, printed
    split = VQADataset(tiny_root).split("val")
    lines = (tmp_path / "questions.jsonl").read_text().splitlines()
    for record in map(json.loads, lines):
        first = f"What is {record['answer']} here?"
        assert record["best"]["text"] == first
        assert record["best"]["log_likelihood"] == 0
        assert [one["text"] for one in record["samples"]] == [first, "Is it?", "?", first]
        shares = [math.exp(one["log_likelihood"]) for one in record["samples"]]
        assert shares == pytest.approx([0.5, 0.25, 0.25, 0.5])
    assert len(lines) == len(split)
    texts = {body["messages"][0]["content"][1]["text"] for body in server.asked}
    assert texts == {PROMPT.format(answer) for answer in split.main_answers}
    assert {body["temperature"] for body in server.asked} == {0, 0.7}
    assert not any("logprobs" in body for body in server.asked)
    metrics = metrics_of(tmp_path)
    assert metrics["served/requests"] == len(server.asked)
    assert metrics["unique_of_4"] == 3
    picture = next((tiny_root / "images").rglob("*.png"))
    with pytest.raises(UserError, match=r"set model\.benchmark\.pools=null"):
        ServedQuestioner.log_likelihood(None, None, [], [])  # type: ignore[arg-type]
    for given, message in (
        ([f"image={picture}", "answer=yes"], "model=prompted_openai gives no probabilities"),
        (["model.prompt=Ask"], "the prompt must have {answer} in it"),
    ):
        status, printed = run("evaluate", *model, *_data(tiny_root), *given)
        assert status != 0
        assert message in " ".join(printed.split())
