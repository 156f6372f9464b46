"""push_to_hub=: the results of a run as a repository, against a local stand-in of the hub."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import ivqa
from hub_server import HubServer, serving_hub

from .conftest import TINY, TINY_FEATURES, Run


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with serving_hub() as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", server.token)
        yield server


def test_a_generator_is_loaded_from_what_was_pushed(
    run: Run, hub: HubServer, tiny_root: Path, tmp_path: Path
) -> None:
    folder, data = tmp_path / "trained", ["data=vqa_json", f"data.root={tiny_root}"]
    command = [*data, *TINY, f"output_dir={folder}", "push_to_hub=me/runs"]
    status, printed = run("train", *command)
    assert status == 0, printed
    assert f"pushed: {hub.url}/me/runs/commit/1" in printed
    (made,) = hub.created
    assert made["name"] == "runs"
    assert made.get("visibility") == "private" or made.get("private")  # by the client's version
    files = hub.files["models/me/runs"]
    assert {*files} == {
        *("README.md", "checkpoints/best.ckpt", "config.yaml", "metrics.json", "provenance.json"),
    }
    card = files["README.md"].decode()
    _, metadata, text = card.split("---\n", 2)
    assert yaml.safe_load(metadata) == {
        "tags": ["ivqa", "visual-question-answering"],
        "library_name": "ivqa",
    }
    name, value = next(iter(json.loads(files["metrics.json"]).items()))
    assert f"| {name} | {value:.4g} |" in text
    assert "python train.py data=vqa_json" in text
    assert 'ivqa.load(snapshot_download("me/runs"))' in text
    for path, content in files.items():
        (tmp_path / "snapshot" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "snapshot" / path).write_bytes(content)
    picture = next((tiny_root / "images" / "val").iterdir())
    asked = [ivqa.load(place).ask(picture, "yes", n=2) for place in (folder, tmp_path / "snapshot")]
    assert asked[0] == asked[1]


def test_a_diagnosis_becomes_a_data_set(
    run: Run, hub: HubServer, tiny_root: Path, tmp_path: Path
) -> None:
    data = ["data=vqa_json", f"data.root={tiny_root}", *TINY_FEATURES, "vqa.epochs=1"]
    command = [f"images={tiny_root / 'images' / 'val'}", "vqa=mlb", *data, "max_questions=20"]
    output = [f"output_dir={tmp_path / 'run'}", "push_to_hub=me/runs"]
    status, printed = run("diagnose", *command, *output)
    assert status == 0, printed
    files = hub.files["datasets/me/runs"]
    assert {*files} == {
        *("README.md", "config.yaml", "metrics.json", "provenance.json"),
        *("report.html", "beliefs.jsonl"),
    }
    for path, content in files.items():
        assert content == (tmp_path / "run" / path).read_bytes()
    assert "data_files: beliefs.jsonl" in files["README.md"].decode()
    hub.refuses = 400
    status, printed = run("diagnose", *command, *output)
    assert status == 1
    assert "push_to_hub=me/runs: the upload failed" in printed
    assert "the results are kept in" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("repo", "token", "message"),
    [
        ("runs", "secret", "push_to_hub=runs must be OWNER/NAME, such as me/runs"),
        ("a/b/c", "secret", "push_to_hub=a/b/c: "),
        ("me/runs", "other", "the hub accepts no token"),
    ],
)
def test_what_cannot_be_pushed_is_said_before_any_work(
    run: Run, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    repo: str, token: str, message: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("HF_TOKEN", token)
    status, printed = run("train", f"push_to_hub={repo}", f"output_dir={tmp_path / 'run'}")
    assert status == 1
    assert message in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert not hub.created
