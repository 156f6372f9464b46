"""The examples of CONTRIBUTING.md and docs/extending.md run as a user runs them, on small data."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image

import documented_commands as documented
from documented_commands import PROJECT

# Sizes with which the parts of a model are trained in seconds.
SMALL = [
    *("data.images={train:40,val:10,test:10}", "features.image_size=32", "features.width=16"),
    "features.epochs=1",
]
TINY_PARTS = [
    *("vqa.epochs=1", "model.parts.legality_model.epochs=1", "model.parts.questioner.epochs=1"),
    *(f"model.parts.questioner.module.network.{size}_size=16" for size in ("embedding", "hidden")),
]


def _run(page: str, marks: list[str], sizes: list[str], folder: Path) -> str:
    """Runs the one command of a page that has all marks, in a folder with the page's files."""
    file = PROJECT / page
    for name, text in documented.files(file).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    found = [
        command
        for command in documented.commands(file)
        if not command.inline and all(mark in command.words for mark in marks)
    ]
    (command,) = found
    assert command.text.startswith("PYTHONPATH=. python ")
    script, *arguments = command.words[1:]
    done = subprocess.run(
        [sys.executable, str(PROJECT / script), *arguments, *sizes],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([".", str(PROJECT / "src")]),
            "IVQA_ARTIFACTS": str(folder / "artifacts"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_first_exercise_prints_what_the_page_shows(tmp_path: Path) -> None:
    printed = _run("CONTRIBUTING.md", ["reward=short"], [*SMALL, *TINY_PARTS], tmp_path)
    blocks = [block.text for block in documented.blocks(PROJECT / "CONTRIBUTING.md")]
    (shown,) = [text for text in blocks if "val/short" in text]
    names = re.findall(r"val/\w+", shown)
    assert (
        {"val/goal", "val/short", "val/reward"}
        <= set(names)
        <= set(re.findall(r"val/\w+", printed))
    )
    metrics = json.loads((tmp_path / "outputs" / "short" / "metrics.json").read_text())
    assert 0 <= metrics["val/reward"] <= min(metrics["val/short"], metrics["val/goal"]) <= 1


@pytest.mark.slow
def test_the_ranker_of_the_page_ranks(tmp_path: Path) -> None:
    _run("docs/extending.md", ["task=rank", "ranker=shared_words"], SMALL[:1], tmp_path)
    (file,) = tmp_path.glob("outputs/**/bqd.parquet")
    row = next(row for row in pq.read_table(file).to_pylist() if row["scores"][0] > 0)
    main, best = (
        set(re.findall(r"\w+", text.lower()))
        for text in (row["question"], row["basic_questions"][0])
    )
    assert row["scores"][0] == pytest.approx(len(main & best) / len(main | best))
    assert row["scores"] == sorted(row["scores"], reverse=True)


@pytest.mark.parametrize(("page", "sees"), [("README.md", False), ("docs/pictures.md", True)])
def test_the_diagnosis_in_python_runs(
    page: str, sees: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both models say yes to everything, so that it is day and night."""
    blocks = [block.text for block in documented.blocks(PROJECT / page)]
    (text,) = [text for text in blocks if "ivqa.diagnose(" in text]
    assert len([line for line in text.splitlines() if line]) == (7 if sees else 5)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 30), "teal").save(tmp_path / "photos" / "teal.png")
    names: dict[str, Any] = {}
    exec(compile(text.replace("max_questions=1000", "max_questions=80"), page, "exec"), names)
    metrics = json.loads((tmp_path / "page" / "metrics.json").read_text())
    assert metrics == names["found"].metrics
    assert metrics["beliefs/errors_at_least"] > 0
    assert set(names["found"].beliefs["phi"]) == {0.9 if sees else 1.0}
    assert (tmp_path / "page" / "report.html").is_file()


@pytest.mark.slow
def test_the_noise_of_the_page_disturbs(tmp_path: Path) -> None:
    sizes = [*SMALL, "model.epochs=1", "callbacks.robustness.resamples=10"]
    _run("docs/extending.md", ["noise=dropped_words"], sizes, tmp_path)
    (file,) = tmp_path.glob("outputs/**/metrics.json")
    levels = re.findall(r"robustness/partition_(\d)/accuracy", file.read_text())
    assert sorted(set(levels)) == ["0", "1", "2", "3"]
    (file,) = tmp_path.glob("outputs/**/robustness.parquet")
    asked = pq.read_table(file).to_pylist()
    first = asked[0]["question_id"]
    texts = {row["level"]: row["question"] for row in asked if row["question_id"] == first}
    words = texts[0].split()
    assert [texts[level].split() for level in range(4)] == [
        words[: len(words) - n] for n in range(4)
    ]
