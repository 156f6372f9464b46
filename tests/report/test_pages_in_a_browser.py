"""The pages about beliefs, opened and used in headless Chromium."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from browser import EXPORT, after, loaded, needs_chromium, title
from ivqa.data import VQASplit
from ivqa.data.oracles import Judgement
from ivqa.diagnosis import Belief, apply_annotations
from ivqa.report.belief_words import BeliefPageModel
from ivqa.report.pages.annotation_page import ToAnnotate, write_annotation_page
from ivqa.report.pages.belief_page import write_belief_page
from ivqa.report.tables import write_table

pytestmark = needs_chromium

SPLIT = VQASplit("val", np.array([1]), np.array([7]), ["Is it red?"], [["yes"]], ["yes"],
                 ["yes/no"], ["is it"])  # fmt: skip
HOSTILE = "Is </script><script>document.title=1</script> there?"


def _belief(question: str, answer: str, kind: str, phi: float) -> Belief:
    return Belief(7, answer, question, phi, -3.0, 0.9, "rl", kind, "oracle")  # type: ignore[arg-type]


class _Meanings:
    """An oracle to which all questions with the same last word mean the same."""

    def fact(self, question: str) -> str:
        return question.split()[-1]

    def judge(self, image_id: int, question: str) -> Judgement:
        return Judgement(True, True, "no", frozenset({"no"}))

    def mistake(self, image_id: int, question: str, answer: str) -> tuple[str, str]:
        return "is wrong about", "all"


def test_wordings_are_folded_and_wrong_beliefs_come_first(tmp_path: Path) -> None:
    beliefs = [
        _belief("Is it red?", "yes", "rephrase", 0.9),
        _belief("Is this red?", "yes", "rephrase", 0.8),
        _belief("Does it look red?", "yes", "rephrase", 0.7),
        _belief(HOSTILE, "yes", "adversarial", 0.6),
    ]
    page = tmp_path / "report.html"
    models = [BeliefPageModel("one", beliefs, {})]
    write_belief_page(page, "Beliefs", models, SPLIT, {}, {}, _Meanings())  # type: ignore[arg-type]
    seen = after(
        page,
        """
        const rows = () => [...document.querySelectorAll("#cards li")]
          .filter(li => !li.closest("[hidden]")).map(li => li.querySelector("span").textContent);
        const folded = rows(), fold = document.querySelector(".fold"), label = fold.textContent;
        fold.click(); const open = rows(); fold.click();
        return { folded, label, open, again: rows().length,
                 wrong: document.querySelector(".kind p").textContent,
                 share: document.querySelector(".kind .bars b").textContent,
                 example: document.querySelector("[data-front] figcaption").textContent };
        """,
    )
    assert seen["folded"] == ["Is it red?", HOSTILE]
    assert seen["label"] == "+2"
    assert seen["open"] == ["Is it red?", "Is this red?", "Does it look red?", HOSTILE]
    assert seen["again"] == 2
    assert (seen["wrong"], seen["share"]) == ("It is wrong about, most often all.", "100%")
    assert seen["example"] == f"{HOSTILE} yes 0.60 adversarial, wrong\u00a0#right: no (oracle)"


def test_only_the_script_of_the_page_runs(tmp_path: Path) -> None:
    """A question that escaping missed: its script is in the page, and does not run."""
    page = tmp_path / "report.html"
    models = [BeliefPageModel("one", [_belief("Is it red?", "yes", "rephrase", 0.9)], {})]
    write_belief_page(page, "Beliefs", models, SPLIT, {(7, "yes"): ["Is it red?"]}, {})
    hostile = "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"
    whole = page.read_text()
    page.write_text(whole.replace("</html>", hostile + "</html>"))
    dom = loaded(page)
    assert title(dom) == "Beliefs"
    assert "1 belief about 1 pair" in dom  # written by the page's own script
    page.write_text(
        re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    )
    assert title(loaded(page)) == "run"


def test_the_gallery_shows_filters_and_searches(tmp_path: Path) -> None:
    beliefs = [
        _belief("Is it red?", "yes", "rephrase", 0.9),
        _belief(HOSTILE, "yes", "irrelevant", 0.8),
        *[_belief(f"Is it number {n}?", "no", "adversarial", 0.5) for n in range(20)],
    ]
    models = [BeliefPageModel("one", beliefs, {"beliefs/count": 22.0}),
              BeliefPageModel("two", beliefs[:1], {"beliefs/count": 1.0})]  # fmt: skip
    page = tmp_path / "report.html"
    write_belief_page(page, "Beliefs", models, SPLIT, {(7, "yes"): ["Is it red?"]}, {})
    seen = after(
        page,
        """
        const shown = () => document.getElementById("shown").textContent;
        const all = shown(), rows = () => document.querySelectorAll("#cards li").length;
        const before = rows(); document.querySelector(".more").click(); const after = rows();
        const asked = document.querySelectorAll("#cards li > div > span:first-child");
        const hostile = asked[1].textContent;
        document.querySelector("[data-type=irrelevant]").click(); const irrelevant = shown();
        document.querySelector("[data-type='']").click();
        document.querySelector("[data-name='1']").click(); const two = shown();
        document.querySelector("[data-name='']").click();
        const box = document.getElementById("search"); box.value = "number 3";
        box.dispatchEvent(new Event("input")); const search = shown();
        return { all, before, after, hostile, irrelevant, two, search };
        """,
    )
    assert seen == {
        "all": "23 beliefs about 2 pairs",
        "before": 18,  # 2 and 1 about "yes", 15 of 20 about "no"
        "after": 23,
        "hostile": HOSTILE,
        "irrelevant": "1 belief about 1 pair",
        "two": "1 belief about 1 pair",
        "search": "1 belief about 1 pair",
    }


def test_annotators_answer_by_keyboard(tmp_path: Path) -> None:
    page = tmp_path / "annotate.html"
    asked = [ToAnnotate(7, "yes", f"Is it {color}?", "Is it red?") for color in ("red", "blue")]
    write_annotation_page(page, "Judge", asked, SPLIT)
    seen = after(
        page,
        """
        const press = key => dispatchEvent(new KeyboardEvent("keydown", { key }));
        for (const key of ["a", "f", "g"]) press(key);
        press("ArrowRight"); press("s");
        const stored = JSON.parse(localStorage.getItem(store));
        const disabled = document.querySelectorAll("fieldset[disabled]").length;
        return { stored, disabled, count: document.getElementById("count").textContent };
        """,
    )
    assert seen["stored"] == {
        "0": {"relevant": 1, "same_fact": 0, "correct": 1},
        "1": {"relevant": 0},
    }
    assert seen["disabled"] == 2
    assert seen["count"] == "2 of 2, 2 judged"


def _exported(page: Path, keys: list[str]) -> tuple[Path, str]:
    """The file that is exported after these keys were pressed, and the counter of the page."""
    asked = [ToAnnotate(7, "yes", f"Is it {color}?", "Is it red?") for color in COLORS]
    write_annotation_page(page, "Judge", asked, SPLIT)
    script = f"for (const key of {json.dumps(keys)}) dispatchEvent(KEYDOWN); {EXPORT}"
    seen = after(page, script.replace("KEYDOWN", 'new KeyboardEvent("keydown", { key })'))
    (records,) = seen["exported"]  # type: ignore[misc]
    file = page.with_name("annotations.json")
    file.write_text(json.dumps(records))
    return file, str(seen["shown"])


COLORS = ("red", "blue", "green", "black", "white")


def test_incomplete_answers_are_exported(tmp_path: Path) -> None:
    """In turn: all answers; not relevant; nothing; one answer of three; nothing."""
    keys = ["a", "f", "g", "ArrowRight", "s", "ArrowRight", "ArrowRight", "a"]
    file, counted = _exported(tmp_path / "annotate.html", keys)
    records = json.loads(file.read_text())
    given = [
        {name: value for name, value in record.items() if name not in ("question", "image_id")}
        for record in records
    ]
    no = dict.fromkeys(("relevant", "same_fact", "correct"), False)
    yes = {"answer": "yes", "weight": 1}
    assert given == [
        {**yes, "relevant": True, "same_fact": False, "correct": True},
        {**yes, **no},
        {**yes, "relevant": True},
    ]
    assert counted == "4 of 5, 2 judged"
    beliefs = [_belief(record["question"], "yes", "rephrase", 0.5) for record in records]
    with pytest.warns(UserWarning, match="1 of 3 records"):
        typed = apply_annotations(beliefs, file)
    assert [belief.type for belief in typed] == ["complementary", "irrelevant", None]


def test_without_a_question_of_the_data_set_two_answers_are_enough(tmp_path: Path) -> None:
    page = tmp_path / "annotate.html"
    write_annotation_page(page, "Judge", [ToAnnotate(7, "yes", f"{x}?") for x in COLORS], SPLIT)
    shown = 'document.querySelectorAll("fieldset:not([hidden])").length'
    script = f"""
        const press = key => dispatchEvent(new KeyboardEvent("keydown", {{ key }}));
        for (const key of ["a", "f", "g"]) press(key);
        window.seen = {{ fieldsets: {shown} }};
        {EXPORT.replace("return {", "return { ...window.seen,")}
    """
    seen = after(page, script)
    assert seen["fieldsets"] == 2
    assert seen["shown"] == "1 of 5, 1 judged"
    (records,) = seen["exported"]  # type: ignore[misc]
    given = {"relevant": True, "same_fact": False, "correct": True}
    assert records == [{"image_id": 7, "answer": "yes", "question": "red?", "weight": 1, **given}]
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps(records))
    typed = apply_annotations([_belief("red?", "yes", "rephrase", 0.5)], file)
    assert [belief.type for belief in typed] == ["complementary"]


def test_a_wrong_answer_is_corrected(tmp_path: Path) -> None:
    """The page stays at the question until the right answer is there; "correct" removes it."""
    page = tmp_path / "annotate.html"
    asked = [ToAnnotate(7, "yes", f"Is it {color}?", "Is it red?") for color in COLORS]
    write_annotation_page(page, "Judge", asked, SPLIT)
    seen = after(
        page,
        f"""
        const press = key => dispatchEvent(new KeyboardEvent("keydown", {{ key }}));
        const box = document.getElementById("right"), field = document.getElementById("corrected");
        const enter = text => {{ box.value = text; box.dispatchEvent(new Event("change")); }};
        const hidden = field.hidden; for (const key of ["a", "f", "h"]) press(key);
        const asks = [hidden, field.hidden, document.activeElement === box]; enter(" no ");
        const stays = document.getElementById("count").textContent;
        box.dispatchEvent(new KeyboardEvent("keydown", {{ key: "Enter" }}));
        for (const key of ["a", "f", "h"]) press(key); enter("maybe"); press("g");
        window.seen = {{ asks, stays }};
        {EXPORT.replace("return {", "return { ...window.seen,")}
        """,
    )
    assert seen["asks"] == [True, False, True]
    assert seen["stays"] == "1 of 5, 1 judged"
    (records,) = seen["exported"]  # type: ignore[misc]
    assert [record.get("right_answer") for record in records] == ["no", None]
    assert [record["correct"] for record in records] == [False, True]


def test_y_and_n_answer_the_next_open_question_in_the_name_of_the_annotator(tmp_path: Path) -> None:
    """Ann judges two beliefs; Bob begins anew; what was judged without a name becomes Ann's."""
    page = tmp_path / "annotate.html"
    asked = [ToAnnotate(7, "yes", f"{x}?", "Is it?", 0.5) for x in COLORS]
    write_annotation_page(page, "Judge", asked, SPLIT)
    assert "5 beliefs, about a minute at 10 seconds each." in page.read_text()
    seen = after(
        page,
        f"""
        const send = key => dispatchEvent(new KeyboardEvent("keydown", {{ key }}));
        const press = keys => [...keys].forEach(send), box = document.getElementById("person");
        const count = () => document.getElementById("count").textContent;
        const name = text => {{ box.value = text; box.dispatchEvent(new Event("change")); }};
        press("yny"); name(" Ann  B "); const named = count(); press("ny"); const full = count();
        name("Bob"); const bob = count(); name("Ann B"); press("y");
        window.seen = {{ named, full, bob }};
        {EXPORT.replace("return {", "return { ...window.seen,")}
        """,
    )
    assert (seen["named"], seen["full"]) == ("2 of 5, 1 judged", "2 of 5, 2 judged")
    assert seen["bob"] == "1 of 5, 0 judged"
    (records,) = seen["exported"]  # type: ignore[misc]
    base = {"image_id": 7, "answer": "yes", "weight": 0.5, "annotator": "Ann B"}
    first, second, third = records
    assert first == {
        **base,
        "question": "red?",
        "relevant": True,
        "same_fact": False,
        "correct": True,
    }
    assert second == {**base, "question": "blue?", **dict.fromkeys(KINDS, False)}
    assert third == {**base, "question": "green?", "relevant": True}
    file = tmp_path / "annotations.json"
    file.write_text(json.dumps(records[:2]))
    beliefs = [_belief(f"{x}?", "yes", "rephrase", 0.5) for x in COLORS[:2]]
    assert [one.type for one in apply_annotations(beliefs, file)] == ["complementary", "irrelevant"]


KINDS = ("relevant", "same_fact", "correct")


def test_a_table_sorts_by_any_column_and_links_to_its_runs(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "report.html").touch()
    values = ["0.5 ± 0.1", "", "10", "failed", "-2"]
    rows = [{"setting": f"x={at}", "r": value} for at, value in enumerate(values)]
    runs = [[tmp_path / "a b", tmp_path / "7"], *[[]] * 4]
    write_table(tmp_path, rows, "5 runs", runs=runs)
    assert "runs" not in (tmp_path / "table.csv").read_text()
    seen = after(
        tmp_path / "table.html",
        """
        const first = row => row.cells[0].textContent.slice(2);
        const rows = () => [...document.querySelectorAll("tbody tr")].map(first).join("");
        const press = at => { document.querySelectorAll("th button")[at].click(); return rows(); };
        const target = a => [a.textContent, a.getAttribute("href")];
        const links = [...document.querySelectorAll("td a")].map(target);
        return { orders: [rows(), press(1), press(1), press(0), press(0)], links,
                 sorted: document.querySelector("[aria-sort]").ariaSort };
        """,
    )
    # The highest first, then the lowest; cells without a number stay last. Texts: A to Z first.
    assert seen["orders"] == ["01234", "20413", "40213", "01234", "43210"]
    assert seen["links"] == [["a b", "a%20b/report.html"], ["7", "7"]]
    assert seen["sorted"] == "descending"
