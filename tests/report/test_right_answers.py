"""The right answers beside wrong beliefs, what the page saves, and its state in the address."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import numpy as np
import pytest

from browser import SAVED, after, needs_chromium
from ivqa.data import VQASplit
from ivqa.diagnosis import Belief, write_challenge
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.pages.belief_page import write_belief_page
from ivqa.scenes.oracle import SceneOracle
from ivqa.scenes.world import Scene, Thing

SCENES = {
    7: Scene("beach", "day", "clear", (Thing("star", "red", "large", "plain", x=0.5, y=0.5),)),
    8: Scene("city", "day", "clear", ()),
}
SPLIT = VQASplit("val", np.array([1, 2]), np.array([7, 8]), ["What color is the star?", "Is it?"],
                 [["red"] * 7 + ["pink"] * 3, ["yes"] * 10], ["red", "yes"], ["other", "yes/no"],
                 ["what color", "is it"])  # fmt: skip
COLOR, PATTERN = "What color is the star?", "What pattern does the star have?"


def _belief(question: str, answer: str, kind: str, by: str = "oracle", phi: float = 0.5) -> Belief:
    return Belief(7, answer, question, phi, -3.0, 0.9, "rl", kind, by)  # type: ignore[arg-type]


WRONG = [
    _belief(COLOR, "blue", "adversarial", phi=0.9),
    _belief(PATTERN, "striped", "adversarial", phi=0.75),
    _belief("How many stars are there?", "2", "adversarial"),
    _belief("What color is the heart?", "blue", "irrelevant"),
    _belief("What shape is the thing?", "star", "complementary", phi=0.25),
]


def _page(path: Path, *models: BeliefPageModel, oracle: SceneOracle | None = None) -> Path:
    write_belief_page(path, "Beliefs", models, SPLIT, {}, {}, oracle)
    return path


def _rights(page: Path) -> list[list[str]]:
    """Who says what is right, of each belief of the page."""
    found = re.search(r'type="application/json" id="data">(.*?)</script>', page.read_text())
    assert found is not None
    data = json.loads(found[1])
    return [data["rights"][at] for item in data["items"] for own in item["sets"] for at in own["r"]]


def test_the_oracle_knows_all_right_answers(tmp_path: Path) -> None:
    page = _page(tmp_path / "r.html", BeliefPageModel("m", WRONG, {}), oracle=SceneOracle(SCENES))
    by_answer = [  # blue: two beliefs; then striped, 2, star
        ["oracle", "red"],
        ["oracle", "no such thing"],
        ["oracle", "plain", "none", "solid"],
        ["oracle", "1"],
        [],
    ]
    assert _rights(page) == by_answer


@pytest.mark.parametrize(
    ("by", "answer", "expected"),
    [
        ("human", "blue", ["people", "pink", "red"]),
        ("judge", "blue", ["judge", "crimson"]),
        ("proxy", "blue", ["annotators", "red", "pink"]),
        # What everybody says is no correction of itself.
        ("proxy", "red", ["annotators", "pink"]),
    ],
)
def test_others_say_what_they_know(
    by: str, answer: str, expected: list[str], tmp_path: Path
) -> None:
    """The right answer comes from whoever typed the belief: another one may not agree with it."""
    belief = replace(_belief(COLOR, answer, "adversarial", by), judge_answer="crimson")
    unknown = replace(_belief("Is it far?", answer, "adversarial", by))
    model = BeliefPageModel(
        "m", [belief, unknown], {}, corrections={belief: ["red", "pink", "pink"]}
    )
    assert _rights(_page(tmp_path / "r.html", model)) == [expected, []]


@needs_chromium
def test_what_is_shown_can_be_saved(tmp_path: Path) -> None:
    """The challenge set is that of the run; a belief that only a judge corrects is not in it."""
    judged = replace(_belief("Is it a beach?", "no", "adversarial", "judge"), judge_answer="yes")
    oracle, model = SceneOracle(SCENES), BeliefPageModel('a "b"', [*WRONG, judged], {})
    script = f"""{SAVED}
        const press = name => document.querySelector(`[data-save=${{name}}]`).click();
        for (const name of ["jsonl", "csv", "challenge"]) press(name);
        document.querySelector("[data-type=irrelevant]").click();
        const all = {{ ...files }}; press("jsonl"); return [all, files["beliefs_shown.jsonl"]];
    """
    files, irrelevant = after(_page(tmp_path / "r.html", model, oracle=oracle), script)  # type: ignore[misc]
    records = [json.loads(line) for line in files["beliefs_shown.jsonl"].splitlines()]  # type: ignore[attr-defined]
    assert {one["line"] for one in records} == {1, 2, 3, 4, 5, 6}
    assert records[0] == {
        "model": 'a "b"', "line": 1, "image_id": 7, "answer": "blue", "question": COLOR, "phi": 0.9,
        "source": "rl", "type": "adversarial", "right_answer": "red", "right_by": "oracle",
        "suspect": False,
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(files["beliefs_shown.csv"])))  # type: ignore[index]
    assert [row["question"] for row in rows] == [one["question"] for one in records]
    assert rows[0]["model"] == 'a "b"'
    assert [json.loads(line)["line"] for line in irrelevant.splitlines()] == [4]  # type: ignore[attr-defined]
    write_challenge(tmp_path, WRONG, SPLIT, oracle)
    for kind in ("questions", "annotations"):
        expected = json.loads((tmp_path / f"{kind}_challenge.json").read_text())
        assert json.loads(files[f"{kind}_challenge.json"]) == expected  # type: ignore[index]


STATE = """
    const shown = () => [...document.querySelectorAll("#cards li span:first-child")]
      .map(e => e.textContent).filter(text => text.endsWith("?"));
    const pressed = [...document.querySelectorAll("[aria-pressed=true]")].map(b => b.textContent);
    const box = id => document.getElementById(id);
"""


@needs_chromium
def test_the_address_has_the_state_of_the_page(tmp_path: Path) -> None:
    page = _page(tmp_path / "r.html", BeliefPageModel("m", WRONG, {}), oracle=SceneOracle(SCENES))
    seen = after(
        page,
        f"""{STATE}
        const given = [shown(), pressed, box("sort").value, box("search").value];
        document.querySelector("[data-type='']").click(); box("search").value = "star";
        box("search").dispatchEvent(new Event("input")); const searched = location.hash;
        document.querySelector("#cards .link").click();
        await new Promise(go => setTimeout(go, 100));
        return {{ given, searched, followed: location.hash, kept: box("search").value,
                  target: document.querySelector(".target").id }};
        """,
        address="#type=adversarial&sort=unsure",
    )
    texts, pressed, sort, search = seen["given"]  # type: ignore[misc]
    assert texts == [WRONG[2].question, WRONG[1].question, WRONG[0].question]
    assert (pressed, sort, search) == (["adversarial"], "unsure", "")
    assert parse_qs(str(seen["searched"])[1:]) == {"search": ["star"], "sort": ["unsure"]}
    # The least confident belief about a star is line 5; the search stays, because it finds it.
    assert (seen["followed"], seen["target"]) == ("#search=star&sort=unsure&belief-5", "belief-5")
    assert seen["kept"] == "star"


@needs_chromium
@pytest.mark.parametrize(
    ("sort", "lines"),
    [("", [1, 5, 2, 3, 4]), ("wrong", [5, 2, 4, 3, 1]), ("sure", [1, 5, 2, 4, 3]),
     ("unsure", [2, 5, 3, 4, 1])],
)  # fmt: skip
def test_pairs_are_sorted_by_their_first_belief(
    sort: str, lines: list[int], tmp_path: Path
) -> None:
    """Confidences of lines 1 to 5: .95 (right), .5, .5, .75, .9; 2 and 5 are of one pair."""
    beliefs = [replace(WRONG[4], phi=0.95), *WRONG[3::-1]]
    page = _page(tmp_path / "r.html", BeliefPageModel("m", beliefs, {}), oracle=SceneOracle(SCENES))
    script = 'return [...document.querySelectorAll("#cards li")].map(e => +e.id.split("-")[1]);'
    assert after(page, script, address=f"#sort={sort}") == lines
