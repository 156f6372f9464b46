"""The table of questions about a picture on a terminal of 80 columns."""

import io
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from PIL import Image
from rich.console import Console

from ivqa.diagnosis.search.asking import AskedQuestion, GivenAnswer
from ivqa.tasks.ask import AskedAnswer, _table


@pytest.mark.parametrize("width", [80, 62, 48])
def test_texts_fold_and_numbers_stay_in_one_piece(width: int) -> None:
    question = "What is the colour of the [smallest] thing " + "to the left of it " * 5 + "?"
    asked = AskedAnswer(
        file=Path("photo.jpg"),
        thumbnail=Image.new("RGB", (8, 8)),
        answer="a very long answer with many words that nobody would give",
        share=0.123,
        questions=[AskedQuestion(question, 0.0042)],
        given=[GivenAnswer("another long answer that only a generative model would write", 0.987)],
    )
    cfg = OmegaConf.create({"vqa": {"name": "hf_generative"}})
    console = Console(file=io.StringIO(), width=width)
    console.print(_table(cfg, [asked], "photo.jpg: questions [x]"))
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, printed.split("\n"))) <= width
    rows = [line.split("│")[1:-1] for line in printed.split("\n") if line.startswith("│")]
    columns = [[row[at].strip() for row in rows] for at in range(5)]
    assert "0.0042" in columns[2]
    assert "0.987" in columns[4]
    # A line may break inside of a word on a terminal as narrow as this.
    texts = ["".join("".join(column).split()) for column in columns]
    wanted = {0: f"{asked.answer} (0.123)", 1: question, 3: asked.given[0].answer}
    assert {at: texts[at] for at in wanted} == {
        at: text.replace(" ", "") for at, text in wanted.items()
    }
    assert "[x]" in printed
