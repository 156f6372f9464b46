"""The page of a human study, opened and used in headless Chromium."""

import html
import json
import re
from pathlib import Path

import numpy as np

from browser import EXPORT, after, loaded, needs_chromium
from ivqa.data import VQASplit
from ivqa.report.pages.annotation_page import ToAnnotate, write_study_page

pytestmark = needs_chromium

SPLIT = VQASplit("val", np.array([1]), np.array([7]), ["Is it red?"], [["yes"]], ["yes"],
                 ["yes/no"], ["is it"])  # fmt: skip
HOSTILE = "Is </script><script>document.title=1</script> there?"
ASKED = [
    ("p", ToAnnotate(70, "yes", "Is it red?", "The reference?")),
    ("q", ToAnnotate(71, "no", HOSTILE)),
    ("r", ToAnnotate(70, "two", "How many?")),
]
USE = """
    const element = id => document.getElementById(id), shown = id => element(id).textContent;
    const press = key => dispatchEvent(new KeyboardEvent("keydown", { key }));
    const name = text => { const box = document.getElementById("person"); box.value = text;
      box.dispatchEvent(new Event("change")); };
"""


def _page(tmp_path: Path) -> Path:
    page = tmp_path / "annotate.html"
    write_study_page(page, "study-1", ASKED, SPLIT)
    return page


def test_it_runs_under_its_security_policy(tmp_path: Path) -> None:
    dom = loaded(_page(tmp_path))
    assert "Content-Security-Policy" in dom
    assert "1 of 3, 0 scored" in dom  # written by the script of the page
    assert "The reference?" not in dom


def test_scores_by_keyboard_are_stored_and_exported(tmp_path: Path) -> None:
    seen = after(
        _page(tmp_path),
        f"""{USE}
        press("4"); const nameless = shown("said"), disabled = element("export").disabled;
        name("  Anna   B "); press("7"); press("4");
        const pressed = document.querySelector("[aria-pressed=true]").textContent;
        press("ArrowRight"); press("ArrowRight"); press("0"); press("1"); press("ArrowLeft");
        const question = shown("question"), answer = shown("answer"), before = shown("count");
        const bar = element("bar").value;
        const stored = localStorage.getItem("ivqa-study:study-1:anna b");
        press("2"); const end = shown("said");
        const result = (() => {{ {EXPORT} }})();
        return {{ nameless, disabled, pressed, question, answer, before, bar, stored, end,
                  ...result }};
        """,
    )
    assert seen["nameless"] == "Write your name at the top first."
    assert seen["disabled"] is True
    assert seen["pressed"] == "4"
    assert (seen["question"], seen["answer"]) == (HOSTILE, "no")
    assert seen["before"] == "2 of 3, 2 scored"
    assert seen["bar"] == 2 / 3
    assert json.loads(str(seen["stored"])) == {"p": 4, "r": 1}
    assert seen["end"] == "All questions have a score. Export them, and send the file."
    assert seen["exported"] == [
        {"study": "study-1", "person": "Anna B", "ratings": {"p": 4, "r": 1, "q": 2}}
    ]


def test_a_score_leads_to_the_next_question(tmp_path: Path) -> None:
    """The timer runs before the title is read."""
    page = _page(tmp_path)
    write = "setTimeout(() => { document.title = shown('count'); }, 500);"
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    script = f"<script>{USE} name('Anna'); press('3'); {write}</script>"
    page.write_text(text.replace("</html>", f"{script}</html>"))
    assert "<title>2 of 3, 1 scored</title>" in loaded(page)


def test_each_person_resumes_at_the_first_question_without_score(tmp_path: Path) -> None:
    seen = after(
        _page(tmp_path),
        f"""{USE}
        const places = [];
        name("Anna"); press("1"); press("ArrowRight"); press("ArrowRight"); press("3");
        name("Ben"); places.push(shown("count"), shown("said"));
        name("ANNA"); places.push(shown("count"));
        press("n"); places.push(shown("count"));
        press("0"); press("n"); places.push(shown("count"));
        const last = localStorage.getItem("ivqa-study:study-1");
        load(last); places.push(JSON.stringify(ratings));
        return {{ places, last }};
        """,
    )
    assert seen["places"] == [
        "1 of 3, 0 scored",
        "No scores of Ben are stored in this browser yet.",
        "2 of 3, 2 scored",
        "2 of 3, 2 scored",
        "2 of 3, 3 scored",
        '{"p":1,"q":0,"r":3}',
    ]
    assert seen["last"] == "ANNA"


def test_it_fits_into_400_pixels(tmp_path: Path) -> None:
    """A frame has the width that a window of Chromium cannot have."""
    inner = html.escape(_page(tmp_path).read_text(), quote=True)
    outer = tmp_path / "outer.html"
    measure = (
        "const d = this.contentDocument.documentElement; document.title = "
        "`width ${d.scrollWidth} of ${d.clientWidth}, ${d.querySelector(`#count`).textContent}`"
    )
    outer.write_text(
        f'<meta charset="utf-8"><title></title><iframe srcdoc="{inner}" onload="{measure}" '
        'style="width:400px;height:800px;border:0"></iframe>'
    )
    assert "<title>width 400 of 400, 1 of 3, 0 scored</title>" in loaded(outer)
