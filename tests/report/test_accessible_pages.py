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


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], set[str]]:
    """The pages, and the templates that they come from."""
    rendered, render = set(), base.render

    def noted(template: str, **values: Any) -> str:
        rendered.add(template)
        return render(template, **values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "render", noted)
        return write_pages(tmp_path_factory.mktemp("pages")), rendered


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    pytest.importorskip("playwright", reason="needs playwright")
    with browser() as opened:
        yield opened


def test_every_template_is_among_the_pages(written: tuple[list[Path], set[str]]) -> None:
    pages, rendered = written
    assert all(page.is_file() for page in pages)
    assert rendered == {file.name for file in TEMPLATES.iterdir()} - PARTS


@needs_chromium
@pytest.mark.slow
def test_no_page_has_a_fault(chromium: Any, written: tuple[list[Path], set[str]]) -> None:
    assert [fault for page in written[0] for fault in look_at(chromium, page)] == []
    for page in written[0]:
        shots = [page.with_name(f"{page.stem}_{width}_{scheme}.png") for width, scheme in SCREENS]
        assert [Image.open(shot).width for shot in shots] == [width for width, _ in SCREENS]
        light, dark = (Image.open(shot).getpixel((1, 1)) for shot in shots[:2])
        assert sum(light[:3]) > 600 > 150 > sum(dark[:3])
        assert Image.open(page.with_name(f"{page.stem}_print.png")).width == 794


@needs_chromium
@pytest.mark.slow
def test_a_contradiction_shows_its_picture_once(
    chromium: Any, written: tuple[list[Path], set[str]]
) -> None:
    tab = chromium.new_page()
    for page, texts in ((written[0][0], "p"), (written[0][5], ".clash")):
        assert page.stem in ("report", "consistency")
        tab.goto(page.as_uri())
        found = tab.evaluate(
            "texts => [...document.querySelectorAll('.clash:has(img), article:has(.clash)')]"
            ".map(e => [e.querySelectorAll('img').length, e.querySelectorAll(texts).length])",
            texts,
        )
        assert found
        assert all(pictures == 1 and number >= 1 for pictures, number in found)
        assert max(number for _, number in found) > 1
    tab.close()


CELL = '<table><tr><td style="max-width: 2em; overflow-wrap: anywhere">0.123456</td></tr></table>'
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
        ("<p>", f"{CELL}<p>", ["broken word"]),
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
