"""Texts of a data set cannot become elements of a page; read by Python's parser, without a browser.

tests/report/test_pages_in_a_browser.py runs the pages in Chromium where it is installed.
"""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ivqa.data import VQASplit
from ivqa.diagnosis import Belief
from ivqa.generators.evaluation import AskedPair, GeneratedQuestion
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.contact_sheet import write_contact_sheet
from ivqa.report.pages.annotation_page import ToAnnotate, write_annotation_page
from ivqa.report.pages.belief_page import write_belief_page
from ivqa.report.tables import write_table

HOSTILE = "</script></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'><b>"


def _belief_page(page: Path, text: str) -> None:
    belief = Belief(7, text, text, 0.9, -3.0, 0.9, "rl", "adversarial", "oracle")
    model = BeliefPageModel(text, [belief], {"beliefs/adversarial": 1.0})
    write_belief_page(page, text, [model], _split(text), {(7, text): [text]}, {})


def _annotation_page(page: Path, text: str) -> None:
    write_annotation_page(page, text, [ToAnnotate(7, text, text, text)], _split(text))


def _contact_sheet(page: Path, text: str) -> None:
    question = GeneratedQuestion(text, -1.0, "consistent")
    item = AskedPair(Image.new("RGB", (8, 8)), text, text, text, question, [question])
    write_contact_sheet(page, [item], text, text, {"name": text})


def _table(page: Path, text: str) -> None:
    write_table(page.parent, [{"setting": text, "value": 1.0}], text)
    (page.parent / "table.html").rename(page)


def _split(text: str) -> VQASplit:
    return VQASplit(
        "val", np.array([1]), np.array([7]), [text], [[text]], [text], ["other"], [text]
    )


class _Elements(HTMLParser):
    """The elements of a page with the names of their attributes, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))


def _elements(page: Path) -> list[tuple[str, tuple[str, ...]]]:
    parser = _Elements()
    parser.feed(page.read_text())
    return parser.found


@pytest.mark.parametrize("write", [_belief_page, _annotation_page, _contact_sheet, _table])
def test_a_hostile_text_adds_no_element(write: Callable[[Path, str], None], tmp_path: Path) -> None:
    pages = {"plain": "Is it red", "hostile": HOSTILE}
    for name, text in pages.items():
        write(tmp_path / f"{name}.html", text)
    assert _elements(tmp_path / "hostile.html") == _elements(tmp_path / "plain.html")
    assert "Content-Security-Policy" in (tmp_path / "hostile.html").read_text()
