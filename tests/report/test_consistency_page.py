"""consistency.html: which images come first, and what is shown of each."""

import html
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from browser import after, needs_chromium
from ivqa.consistency import ImageConsistency
from ivqa.consistency.records import JudgedAnswer
from ivqa.data import VQASplit
from ivqa.logic import Contradiction
from ivqa.report.pages.consistency_page import (
    consistency_rows,
    consistency_sentences,
    write_consistency_page,
)
from ivqa.report.tables import print_metrics

HOSTILE = "Is </script><script>document.title=1</script><b>it</b> there?"
METRICS = {
    "consistency/suspects": 0.3,
    "consistency/questions": 3.0,
    "consistency/asked": 2000.0,
    "consistency/implied": 2100.0,
    "consistency/unclear": 0.0,
    "consistency/rate": 0.8,
    "consistency/rate_low": 0.75,
    "consistency/rate_high": 0.85,
    "consistency/second_rule/rate": 0.5,
    "consistency/second_rule/rate_low": 0.25,
    "consistency/second_rule/rate_high": 0.625,
    "consistency/second_rule/implied": 8.0,
    "consistency/errors_at_least": 0.041,
    "consistency/errors_at_least_low": 0.03,
    "consistency/errors_at_least_high": 0.05,
    "consistency/error_estimate": 0.2,
    "consistency/error_estimate_low": 0.1,
    "consistency/error_estimate_high": 0.3,
    "consistency/suspects/precision": 0.9,
}
SPLIT = VQASplit(
    *("val", np.array([1, 2, 3]), np.array([7, 8, 9]), ["color?", HOSTILE, "far?"]),
    *([["blue"], ["no"], ["yes"]], ["blue", "no", "yes"], ["other"] * 3, ["is"] * 3),
)


def _image(
    image: int, own: str, number: int, least: int, *found: Contradiction
) -> ImageConsistency:
    answers = [
        JudgedAnswer(image, own, "red", 0.9, number, 0.4, True),
        JudgedAnswer(image, "Is there a car?", "no", 0.25, None, 0.8, False),
        JudgedAnswer(image, "Is it red?", "no", None, None, 0.9, False),
    ]
    return ImageConsistency(image, answers, list(found), least)


SURE = Contradiction((0, 1), "presupposition", True)
LIKELY = Contradiction((0, 2), "exclusion", False)
IMAGES = [
    _image(7, "color?", 1, 0, LIKELY),
    _image(8, HOSTILE, 2, 1, LIKELY, SURE),
    _image(9, "far?", 3, 0),
]


def _written(folder: Path) -> Path:
    page = folder / "consistency.html"
    write_consistency_page(page, "Answers", "MLB", IMAGES, METRICS, SPLIT)
    return page


def test_worst_images_come_first_and_certain_contradictions_of_each(tmp_path: Path) -> None:
    text = _written(tmp_path).read_text()
    articles = re.findall(r'<article id="image-(\d+)">(.*?)</article>', text, re.DOTALL)
    assert [image for image, _ in articles] == ["8", "7"]  # no contradiction about image 9
    clashes = re.findall(r'<li class="clash" data-rule="(\w+)">', articles[0][1])
    assert clashes == ["presupposition", "exclusion"]
    plain = " ".join(re.sub(r"<[^>]+>", " ", articles[0][1]).split())
    assert "At least 1 of 3 answers is wrong" in plain
    first, second = plain.split("presupposition ")[1].split(" exclusion, holds for most images ")
    assert html.unescape(first) == (
        f"{HOSTILE} red 0.90 suspected in the data set: no Is there a car? no 0.25"
    )
    assert html.unescape(second).endswith("Is it red? no")  # no confidence is known
    assert "3 images, 2 with answers that exclude each other" in text
    assert not re.search(r"https?://", text)


def test_a_hostile_question_adds_no_element(tmp_path: Path) -> None:
    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.found.append(tag)

    parser = Tags()
    parser.feed(_written(tmp_path).read_text())
    assert "b" not in parser.found[parser.found.index("article") :]
    assert parser.found.count("script") == 1


def test_one_contradiction_of_each_answer_and_at_most_three_of_a_rule(tmp_path: Path) -> None:
    answers = [JudgedAnswer(7, f"q{number}?", "no", None, None) for number in range(6)]
    found = [Contradiction((0, number), "rule", True) for number in range(1, 6)]
    found.append(Contradiction((1, 2), "other", True))  # both are shown already
    page = tmp_path / "page.html"
    image = ImageConsistency(7, answers, found, 1)
    write_consistency_page(page, "Answers", "MLB", [image], METRICS, SPLIT)
    text = page.read_text()
    assert text.count('<li class="clash"') == 3
    assert "3 more contradictions" in text
    assert 'data-rule="other"' not in text


@needs_chromium
def test_the_filter_shows_the_contradictions_of_a_rule(tmp_path: Path) -> None:
    page = _written(tmp_path)
    seen = after(
        page,
        """
        const rules = () => [...document.querySelectorAll(".clash")]
          .filter(one => one.offsetParent !== null).map(one => one.dataset.rule);
        const pictures = () => [...document.querySelectorAll("article")]
          .filter(one => one.offsetParent !== null).map(one => one.id);
        const press = rule => document.querySelector(`nav button[data-rule="${rule}"]`).click();
        const given = rules(); press(""); const all = rules();
        press("presupposition"); const few = rules(), shown = pictures(), kept = location.hash;
        press(""); const again = rules().length, box = document.getElementById("search");
        box.value = "CAR"; box.dispatchEvent(new Event("input"));
        return { given, all, few, shown, kept, again, found: rules(), last: location.hash };
        """,
        address="#rule=exclusion",
    )
    assert seen == {
        "all": ["presupposition", "exclusion", "exclusion"],
        "few": ["presupposition"],
        "shown": ["image-8"],
        "again": 3,
        "given": ["exclusion", "exclusion"],  # by the address
        "kept": "#rule=presupposition",
        "found": ["presupposition"],
        "last": "#search=CAR",
    }


def test_the_table_has_a_row_for_each_rule_and_metrics_do_not_repeat_it() -> None:
    assert consistency_rows(METRICS) == [
        {"rule": "all", "implied": 2100, "as implied": "0.800", "95 percent": "0.750-0.850"},
        {"rule": "second rule", "implied": 8, "as implied": "0.500", "95 percent": "0.250-0.625"},
    ]
    assert consistency_rows({"consistency/implied": 0.0}) == []
    out = io.StringIO()
    print_metrics(METRICS, title="metrics", console=Console(file=out, width=100))
    assert "consistency/rate_low" in out.getvalue()
    assert "consistency/suspects/precision" in out.getvalue()
    assert "second_rule" not in out.getvalue()


@pytest.mark.parametrize("known", [True, False])
def test_the_figures_in_sentences(known: bool) -> None:
    metrics = METRICS | ({"consistency/error": 0.25} if known else {})
    assert consistency_sentences(metrics, "MLB") == [
        "MLB answers 80% of 2,100 questions as its own answers imply.",
        "At least 4.1% (3.0% to 5.0%) of its 2,003 answers are wrong: they contradict others.",
        "Of its 3 answers to the questions asked first, an estimated 20.0% (10.0% to 30.0%) are "
        f"wrong{'; in truth 25.0%' if known else ''}.",
    ]
    witnessed = consistency_sentences(metrics | {"consistency/witness": 2003.0}, "MLB")
    assert witnessed[3:] == [
        "Another model answered 2,003 of the questions too, as a witness of what is there."
    ]
    doubtful = consistency_sentences(metrics | {"consistency/suspects": 0.41}, "MLB")
    assert len(doubtful) == 4
    assert doubtful[3].startswith("Do not rely on this estimate: 41% of these answers are suspects")
