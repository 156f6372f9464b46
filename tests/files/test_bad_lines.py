"""Lines, texts and settings that are not what a reader expects."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from bad_files import BELIEF, JUDGED, refused, word_vectors

from ivqa.diagnosis import apply_annotations, label_weights, read_beliefs
from ivqa.store.files import read_json, read_yaml


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "{}",
        json.dumps({**asdict(BELIEF), "more": 1}),
        json.dumps({**asdict(BELIEF), "phi": "high"}),
        json.dumps({**asdict(BELIEF), "phi": float("nan")}),
        json.dumps({**asdict(BELIEF), "image_id": 1.5}),
        json.dumps({**asdict(BELIEF), "type": "wrong"}),
        json.dumps({**asdict(BELIEF), "type_by": "me"}),
        json.dumps({**asdict(BELIEF), "judge_wrong": 1.5}),
        json.dumps({**asdict(BELIEF), "judge_wrong": "no"}),
        json.dumps({**asdict(BELIEF), "judge_wrong": True}),
        BELIEF.line()[:40],
    ],
)
def test_lines_that_are_not_beliefs_arerefused(line: str, tmp_path: Path) -> None:
    file = tmp_path / "beliefs.jsonl"
    file.write_text(f"{BELIEF.line()}{line}\n{BELIEF.line()}")
    assert "line 2" in refused(read_beliefs, file)


@pytest.mark.parametrize(
    "change",
    [
        {"image_id": "1"},
        {"image_id": None},
        {"answer": 1},
        {"relevant": "no"},
        {"correct": None},
        {"question": "Is it blue?"},
        {"relevant": ...},
        {"weight": 0},
        {"weight": "1"},
        {"weight": True},
        {"weight": 1e999},
    ],
)
def test_records_that_are_not_judgements_arerefused(change: dict[str, Any], tmp_path: Path) -> None:
    record = {name: value for name, value in {**JUDGED, **change}.items() if value is not ...}
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps([record]))
    reader = label_weights if "weight" in change else apply_annotations
    assert "record 1" in refused(lambda f: reader([BELIEF], f), file)


@pytest.mark.parametrize(
    "text",
    [
        "red\nblue\n",
        "red 1 2\nblue 1\n",
        "red 1 2\nblue 1 2 3\n",
        "red x y\n",
        "red nan 1\n",
        "red inf 1\n",
        "3 2\nred 1 2\nblue 1 2\n",
        "2 3\nred 1 2\nblue 1 2\n",
    ],
)
def testword_vectors_with_wrong_columns_arerefused(text: str, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text(text)
    refused(word_vectors, tmp_path / "vectors.txt")


@pytest.mark.parametrize("text", ["", "a: [", "7", "- a", "a: !!python/name:os.system", "\0"])
def test_invalid_yaml_isrefused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text)
    refused(lambda file: read_yaml(file, dict), tmp_path / "config.yaml")


def test_json_with_nan_isrefused(tmp_path: Path) -> None:
    (tmp_path / "progress.json").write_text('{"figures": [NaN]}')
    refused(read_json, tmp_path / "progress.json")
