"""The steps of docs/tutorial.md, as a user takes them, find what the page says."""

import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import documented_commands as documented
from documented_commands import PROJECT
from ivqa.diagnosis import read_beliefs

PAGE = PROJECT / "docs" / "tutorial.md"
BLOCKS = [block.text for block in documented.blocks(PAGE)]
pytestmark = pytest.mark.slow  # 15 to 20 seconds
TOLERANCE = 0.02  # of shares and probabilities, for other processors


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where steps 2 and 3 were taken, with the released weights."""
    folder = tmp_path_factory.mktemp("tutorial")
    for name, text in documented.files(PAGE).items():
        (folder / name).write_text(text)
    commands = [one for one in documented.commands(PAGE) if not one.inline]
    (draw,) = [one.words[1:] for one in commands if one.text == "python draw.py"]
    (ask,) = [one.arguments for one in commands if "images=pictures/images/val" in one.words]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    environment.pop("IVQA_ARTIFACTS", None)
    for words in (draw, [str(PROJECT / "diagnose.py"), *ask]):
        subprocess.run([sys.executable, *words], cwd=folder, env=environment, check=True)
    return folder


def _block(mark: str) -> str:
    (text,) = [text for text in BLOCKS if mark in text]
    return text


def _run(mark: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a block of Python; returns what it prints."""
    monkeypatch.chdir(folder)
    printed, names = StringIO(), dict[str, Any]()
    with redirect_stdout(printed):
        exec(compile(_block(mark), PAGE.name, "exec"), names)
    return printed.getvalue()


def _rows(table: str) -> dict[str, tuple[str, float, str]]:
    """Answer, phi and suspect by question."""
    found = re.findall(r"^ *(\S.*\?) +(\w+) +([\d.]+) +(True|False)$", table, re.M)
    return {question: (answer, float(phi), suspect) for question, answer, phi, suspect in found}


def test_the_figures_are_those_of_the_page(folder: Path) -> None:
    shown = " ".join(_block("At least").split())
    number = re.fullmatch(
        r"at most (\d+) questions about (\d+) pictures .*At least (\d+) of its (\d+) answers are "
        r"wrong \(([\d.]+)%\), .* other; (\d+) are suspected\. .* about (\d+) more wrong answers "
        r"\((\d+) to (\d+)\)\. .*",
        shown,
    )
    assert number is not None
    asked, pictures, wrong, answers, percent, suspected, more, low, high = map(
        float, number.groups()
    )
    found = json.loads((folder / "outputs/mine/metrics.json").read_text())
    assert (asked, answers) == (found["search/questions"], found["beliefs/count"])
    assert pictures == found["beliefs/images"]
    assert wrong / answers == pytest.approx(percent / 100, abs=0.0005)
    assert percent / 100 == pytest.approx(found["beliefs/errors_at_least"], abs=TOLERANCE)
    assert suspected / answers == pytest.approx(found["beliefs/suspects"], abs=TOLERANCE)
    ends = [found[f"search/next_100{end}"] for end in ("", "_low", "_high")]
    assert [more, low, high] == pytest.approx(ends, abs=100 * TOLERANCE)


def test_the_named_pair_contradicts_itself(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And there is no square in the picture, so that the suspect is the wrong answer."""
    code = _block("read_json")
    shown = _rows(_block("suspect\n"))
    printed = _rows(_run("read_json", folder, monkeypatch))
    pair = ["What color is the square?", "Is there a square?"]
    for question in pair:
        answer, phi, suspect = shown[question]
        assert printed[question] == (answer, pytest.approx(phi, abs=TOLERANCE), suspect)
    (number,) = map(int, re.findall(r'"image_id"\] == (\d+)', code))
    beliefs = read_beliefs(folder / "outputs/mine/beliefs.jsonl")
    color, there = [
        next(one for one in beliefs if (one.image_id, one.question) == (number, question))
        for question in pair
    ]
    assert beliefs.index(there) + 1 in (color.contradicts or [])
    text = " ".join(PAGE.read_text().split())
    said = re.search(
        r"(\d+) percent sure that the square is (\w+), and (\d+) percent sure that there is no",
        text,
    )
    assert said is not None
    assert (said[2], "no") == (color.answer, there.answer)
    sure = [int(said[1]) / 100, int(said[3]) / 100]
    assert sure == pytest.approx([color.phi, there.phi], abs=TOLERANCE)
    files = json.loads((folder / "outputs/mine/pictures.json").read_text())
    scenes = json.loads((folder / "pictures/scenes_val.json").read_text())
    things = scenes[str(int(Path(files[str(number)]).stem.rpartition("_")[2]))]["things"]
    assert "square" not in {thing["shape"] for thing in things}
    assert {thing["shape"] for thing in things if thing["color"] == color.answer} == {"heart"}


def test_a_function_is_a_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = _run("def my_model", folder, monkeypatch)
    assert "outputs/my_model/report.html" in printed
    assert "Was this picture taken at night?    yes" in printed
