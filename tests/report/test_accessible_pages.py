"""All pages on wide and narrow screens, in light, dark and print: `make pages` as a test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from browser import needs_chromium
from ivqa.report.pages import base
from pages import SCREENS, browser, look_at
from small_pages import write_pages

TEMPLATES = Path(base.__file__).parents[1] / "templates"
PARTS = {"bar.html.j2", "page.css.j2"}


def test_every_template_is_among_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered, render = set(), base.render

    def noted(template: str, **values: Any) -> str:
        rendered.add(template)
        return render(template, **values)

    monkeypatch.setattr(base, "render", noted)
    pages = write_pages(tmp_path)
    assert all(page.is_file() for page in pages)
    assert rendered == {file.name for file in TEMPLATES.iterdir()} - PARTS


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    pytest.importorskip("playwright", reason="needs playwright")
    with browser() as opened:
        yield opened


@needs_chromium
@pytest.mark.slow
def test_no_page_has_a_fault(chromium: Any, tmp_path: Path) -> None:
    pages = write_pages(tmp_path)
    assert [fault for page in pages for fault in look_at(chromium, page)] == []
    for page in pages:
        shots = [f"{page.stem}_{width}_{scheme}.png" for width, scheme in SCREENS]
        widths = [Image.open(tmp_path / name).width for name in shots]
        assert widths == [width for width, _ in SCREENS]
        light, dark = (Image.open(tmp_path / name).getpixel((1, 1)) for name in shots[:2])
        assert sum(light[:3]) > 600 > 150 > sum(dark[:3])
        assert Image.open(tmp_path / f"{page.stem}_print.png").width == 794


WHOLE = """<!doctype html><html lang="en"><title>Page</title><main><h1>Heading</h1>
<label>Name <input></label> <input placeholder="words" aria-label="Search">
<p>These things are there. Things are not.</p></main></html>"""


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        ("", "", []),
        (' aria-label="Search"', "", ["no label"]),  # axe takes the placeholder for a name
        ("label>", "p>", ["label", "no label"]),
        ("<p>", '<p style="color: #aaa">', ["color-contrast"]),
        ("<p>", '<p style="width: 2000px">', ["scrolls sideways"]),
        ("<p>", '<p style="width: 5em; overflow: hidden; white-space: nowrap">', ["cut text"]),
        ("there. Things", "there, there", ["repeated word"]),
        ("<p>", '<img src="absent.png" alt="It"><p>', ["no picture"]),
        ("<p>", "<script>absent()</script><p>", ["script"]),
    ],
)
def test_each_fault_is_found(
    chromium: Any, tmp_path: Path, before: str, after: str, faults: list[str]
) -> None:
    page = tmp_path / "page.html"
    page.write_text(WHOLE.replace(before, after) if before else WHOLE)
    found = look_at(chromium, page, [(400, "light")])
    assert [fault.split(": ")[1] for fault in found] == faults
