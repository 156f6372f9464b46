"""model=openai from the command line, with a local server."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ivqa.data import VQADataset
from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis import read_beliefs
from ivqa.metrics import vqa_accuracies
from ivqa.text.normalisation import normalise_answer
from ivqa.vqa.transformers.hf_generative import HFGenerative
from tiny_transformers import tiny_llava
from vqa.chat_server import ChatServer, said, serving

from .conftest import TINY_DIAGNOSIS, Run, metrics_of

NOISE = ["callbacks=robustness", "noise=word_shuffling", "callbacks.robustness.num_questions=12"]
ONE_WORD = "\nAnswer the question using a single word or phrase."


def _drawn(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
    """An answer that depends on question and image, with log-probabilities."""
    digest = hashlib.sha256(prompt.encode() + image.convert("RGB").tobytes()).digest()
    written, other = ("Yes", "no") if digest[0] % 2 else ("No", "yes")
    shown = [{"token": written, "logprob": -0.5}, {"token": other, "logprob": -1.0}]
    return said(written, logprobs={"content": [{**shown[0], "top_logprobs": shown}]})


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving(ChatServer(_drawn)) as running:
        yield running


def _served(server: ChatServer, key: str = "model") -> list[str]:
    return [f"{key}=openai", f"{key}.path=tiny", f"{key}.base_url={server.url}"]


def _data(root: Path) -> list[str]:
    return ["data=vqa_json", f"data.root={root}"]


def test_a_served_model_is_evaluated_like_the_model_itself(
    run: Run, server: ChatServer, tiny_root: Path, tmp_path: Path
) -> None:
    folder = tiny_llava(tmp_path / "llava")
    direct = HFGenerative.load(str(folder))

    def reply(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        class One:
            def open(self, _: int) -> Image.Image:
                return image.convert("RGB")

        with server.lock:
            one = ImageBatch(torch.tensor([0]), torch.tensor([0]), source=One())
            return said(*direct.answer(one, [prompt]))

    server.reply = reply
    common = [*_data(tiny_root), "split=val", *NOISE, "model.prompt='{question}'"]
    commands = {
        "served": [*_served(server), "model.module.lower_case=false"],
        "direct": ["model=hf_generative", f"model.path={folder}"],
    }
    for name, model in commands.items():
        status, printed = run("evaluate", *model, *common, f"output_dir={tmp_path / name}")
        assert status == 0, printed
    read = [json.loads((tmp_path / name / "predictions.json").read_text()) for name in commands]
    assert read[0] == read[1]
    assert len({record["answer"] for record in read[0]}) > 1
    served, local = (metrics_of(tmp_path / name) for name in commands)
    assert {name for name in served if name.startswith(("vqa/", "robustness/"))} == {
        name for name in local if name.startswith(("vqa/", "robustness/"))
    }
    for name, value in local.items():
        if name.startswith(("vqa/", "robustness/")) and "per_second" not in name:
            assert served[name] == value, name
    assert served["served/requests"] == len(server.asked)
    assert served["served/prompt_tokens"] == 100 * len(server.asked)


def test_the_budget_stops_cleanly_and_the_next_run_asks_only_the_rest(
    run: Run, server: ChatServer, tiny_root: Path, tmp_path: Path
) -> None:
    command = [*_served(server), *_data(tiny_root), "split=val", "callbacks=default"]
    store = f"artifacts={tmp_path / 'store'}"
    status, printed = run("evaluate", *command, store, "model.max_requests=10")
    assert status == 1
    assert "error: stopped at max_requests=10 (10 requests with 1,000 prompt" in printed
    assert "HTTP Request" not in printed
    assert len(server.asked) == 10
    for _ in range(2):
        out = tmp_path / "run"
        status, printed = run("evaluate", *command, store, f"output_dir={out}")
        assert status == 0, printed
    assert "at most 10,000 requests" in printed
    assert "HTTP Request" not in printed  # the client logs every request at the level INFO
    texts = [json.dumps(body["messages"]) for body in server.asked]
    assert len(set(texts)) == len(texts)
    metrics = metrics_of(out)
    assert metrics["served/requests"] == 0
    assert metrics["served/reused"] == len(texts)


def test_replies_without_an_answer_are_counted_and_stop_a_run_if_there_is_no_other(
    run: Run, server: ChatServer, tiny_root: Path, tmp_path: Path
) -> None:
    def cut(prompt: str, image: Image.Image, body: dict[str, Any]) -> dict[str, Any]:
        return said(None, finish="length", message={"reasoning_content": "It is"})

    server.reply = cut
    command = [*_served(server), *_data(tiny_root), "split=val", f"output_dir={tmp_path / 'run'}"]
    store = f"artifacts={tmp_path / 'store'}"
    status, printed = run("evaluate", *command, store)
    assert status == 1
    assert "raise max_new_tokens" in printed
    assert not (tmp_path / "run" / "metrics.json").exists()
    first = server.asked[0]["messages"][0]["content"][1]["text"]
    server.reply = lambda prompt, image, body: (cut if prompt == first else _drawn)(
        prompt, image, body
    )
    status, printed = run("evaluate", *command, store)
    assert status == 0, printed
    metrics = metrics_of(tmp_path / "run")
    assert metrics["served/cut"] == metrics["served/failed"] == metrics["served/reused"] + 1 > 0
    assert metrics["vqa/failed"] >= 1
    assert ("warning: of" in printed) == (metrics["served/cut"] > 0.01 * metrics["served/answers"])


def test_a_served_model_is_diagnosed_with_another_model_s_policy(
    run: Run, server: ChatServer, tiny_root: Path, tmp_path: Path
) -> None:
    training = [item for item in TINY_DIAGNOSIS if item.startswith(("features.", "model.", "vqa"))]
    policy = tmp_path / "policy"
    status, printed = run(
        "train", "model=ivqa_rl", "vqa=vanilla", *_data(tiny_root), *training,
        f"output_dir={policy}",
    )  # fmt: skip
    assert status == 0, printed
    small = [item for item in TINY_DIAGNOSIS if not item.startswith("vqa.")]
    diagnosis = [
        *_served(server, "vqa"), *_data(tiny_root), *small, "split=val", "num_latents=6",
        f"ckpt={policy / 'checkpoints' / 'best.ckpt'}", "noise=word_shuffling",
    ]  # fmt: skip
    out = tmp_path / "diagnosis"
    status, printed = run("diagnose", *diagnosis, "vqa.max_requests=15", f"output_dir={out}")
    assert status == 1
    assert "error: stopped at max_requests=15" in printed
    status, printed = run("diagnose", *diagnosis, f"output_dir={out}")
    assert status == 0, printed
    metrics = metrics_of(out)
    assert metrics["served/requests"] == len(server.asked) - 15
    assert metrics["served/reused"] == 15
    assert metrics["served/phi_logprobs"] == 1
    assert {"vqa/accuracy", "robustness/r_score"} <= set(metrics)
    # The accuracy costs only the questions about the four images.
    split = VQADataset(tiny_root).split("val")
    ids = np.random.default_rng(1).permutation(np.unique(split.image_ids))[:4]
    rows = np.flatnonzero(np.isin(split.image_ids, ids)).tolist()
    answers = [
        _drawn(split.questions[row] + ONE_WORD, split.images.open(int(split.image_ids[row])), {})
        for row in rows
    ]
    texts = [answer["choices"][0]["message"]["content"].lower() for answer in answers]
    expected = vqa_accuracies(texts, [split.answers[row] for row in rows]).mean()
    assert metrics["vqa/accuracy"] == pytest.approx(expected, abs=1e-6)
    beliefs = read_beliefs(out / "beliefs.jsonl")
    assert beliefs
    for belief in beliefs:  # exp(-0.5) is the probability of every answer that is given
        assert belief.phi == pytest.approx(0.606531, abs=1e-5)
        body = next(
            body for body in server.asked
            if body["messages"][0]["content"][1]["text"] == belief.question + ONE_WORD
        )  # fmt: skip
        assert normalise_answer(belief.answer) in ("yes", "no")
        assert body["temperature"] == 0


def test_no_file_holds_a_key(
    run: Run,
    server: ChatServer,
    tiny_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither the files of the run, nor the cache of responses, nor those of W&B."""
    keys = {"TINY_KEY": "key-of-the-endpoint-4711", "WANDB_API_KEY": "b" * 36 + "4711"}
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    server.key = keys["TINY_KEY"]
    command = [*_served(server), "model.api_key_env=TINY_KEY", *_data(tiny_root), "split=val"]
    places = [f"artifacts={tmp_path / 'store'}", f"output_dir={tmp_path / 'run'}"]
    status, printed = run("evaluate", *command, *places, "logger=wandb")
    assert status == 0, printed
    assert list((tmp_path / "run").rglob("*.wandb"))
    written = [file for file in tmp_path.rglob("*") if file.is_file()]
    for key in keys.values():
        assert key not in printed
        assert [file for file in written if key.encode() in file.read_bytes()] == []


@pytest.mark.parametrize("command", ["evaluate", "diagnose"])
def test_what_is_missing_is_one_sentence(
    command: str,
    run: Run,
    server: ChatServer,
    tiny_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "model" if command == "evaluate" else "vqa"
    data = [*_data(tiny_root), "split=val", f"artifacts={tmp_path / 'store'}"]
    with serving(ChatServer(_drawn)) as down:
        pass
    status, printed = run(command, *_served(down, key), *data)
    assert status == 1
    assert f"error: the connection to {down.url} failed" in printed
    assert not list((tmp_path / "store").rglob("*.ckpt"))
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    status, printed = run(command, *_served(server, key), *data, f"{key}.api_key_env=NO_SUCH_KEY")
    assert status == 1
    assert "the environment variable NO_SUCH_KEY is not set" in printed
    assert "Traceback" not in printed
    status, printed = run(command, *_served(server, key), *data, f"{key}.base_url=localhost:1")
    assert "base_url=localhost:1: must be an address such as http" in printed
