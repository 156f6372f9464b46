"""Annotation by several people: kept answers, agreement, and files that the commands read."""

import json
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra view")
from ivqa.diagnosis import Belief, apply_annotations, corrected_answers, label_weights
from ivqa.errors import UserError
from ivqa.tasks.human_study.items import Study, StudyItem
from ivqa.tasks.human_study.ratings import read_ratings
from ivqa.view.annotation import Answers, agreement, exported, questionnaire_of
from ivqa.view.runs import find_runs

HOSTILE = "Is </script><script>document.title='run'</script> there?"


def _give(client: Any, person: str, *given: tuple[int, str, object], run: str = "diagnosis") -> str:
    text = ""
    for at, field, value in given:
        form = {"run": run, "person": person, "at": at, "field": field, "value": str(value)}
        answer = client.post("/annotate", data=form)
        assert answer.status_code == 200, answer.text
        text = answer.text
    return text


def _shown(text: str) -> str:
    (found,) = re.findall(r'<span role="status">(.*?)</span>', text)
    return found


def test_judged_beliefs_are_exported_for_diagnose(client: Any, tmp_path: Path) -> None:
    anna = [(0, "relevant", 1), (0, "same_fact", 0), (0, "correct", 0), (0, "right_answer", " No "),
            (1, "relevant", 0), (2, "relevant", 1), (2, "correct", 1)]  # fmt: skip
    _give(client, "Anna", *anna)
    _give(client, "Ben", (0, "relevant", 1), (0, "same_fact", 1))  # he stops in the middle
    answer = client.get("/annotate/export?run=diagnosis")
    assert answer.headers["content-disposition"].endswith("''annotations.json")
    assert json.loads(answer.text) == [
        {"image_id": 1, "answer": "yes", "question": "Is it red?", "weight": 1, "annotator": "Anna",
         "relevant": True, "same_fact": False, "correct": False, "right_answer": "No"},
        {"image_id": 2, "answer": "two", "question": HOSTILE, "weight": 2.5, "annotator": "Anna",
         "relevant": False, "same_fact": False, "correct": False},
        {"image_id": 2, "answer": "no", "question": "Is it old?", "weight": 1, "annotator": "Anna",
         "relevant": True, "correct": True, "same_fact": False},
        {"image_id": 1, "answer": "yes", "question": "Is it red?", "weight": 1, "annotator": "Ben",
         "relevant": True, "same_fact": True},
    ]  # fmt: skip
    file = tmp_path / "annotations.json"
    file.write_text(answer.text)
    keys = [(1, "yes", "Is it red?"), (2, "two", HOSTILE), (2, "no", "Is it old?")]
    beliefs = [Belief(*key, 0.5, -3.0, 0.9, "rl", None, None) for key in keys]
    with pytest.warns(UserWarning, match="1 of 4 records do not answer the three questions"):
        typed = apply_annotations(beliefs, file)
    assert [belief.type for belief in typed] == ["adversarial", "irrelevant", "complementary"]
    assert corrected_answers(typed, file) == {typed[0]: ["no"]}
    np.testing.assert_array_equal(label_weights(typed, file), [1, 2.5, 1])
    alone = json.loads(client.get("/annotate/export?run=diagnosis&person=Ben").text)
    assert [record["annotator"] for record in alone] == ["Ben"]


def test_a_scored_study_is_exported_for_evaluate(client: Any, tmp_path: Path) -> None:
    text = _give(
        client, "  Anna   B ", (0, "score", 4), (2, "score", 0), (0, "score", 3), run="study"
    )
    assert _shown(text) == "2 of 3, 2 scored"  # item 0 was scored again, and the next is shown
    _give(client, "anna b", (1, "score", 1), run="study")  # the same person
    answer = client.get("/annotate/export", params={"run": "study", "person": "Anna B"})
    assert answer.headers["content-disposition"].endswith("''anna-b.json")
    file = tmp_path / "anna.json"
    file.write_text(answer.text)
    items = [StudyItem(f"item{n}", 1, "", "", "", ["a"], {}) for n in range(3)]
    names, ratings = read_ratings([file], Study("study-1", {}, {}, items))
    assert names == ["Anna B"]
    np.testing.assert_array_equal(ratings, [[3, 1, 0]])
    _give(client, "Ben", (0, "score", 1), run="study")
    both = client.get("/annotate/export?run=study")
    assert both.status_code == 400
    assert "person by person" in both.text


def test_a_changed_judgement_forgets_what_followed_from_it(client: Any) -> None:
    text = _give(client, "Anna", (0, "relevant", 1), (0, "correct", 0), (0, "right_answer", "blue"))
    assert 'value="blue"' in text
    text = _give(client, "Anna", (0, "correct", 1))
    assert "right answer" not in text
    assert "blue" not in client.get("/annotate/export?run=diagnosis").text
    text = _give(client, "Anna", (0, "relevant", 0))
    assert _shown(text) == "2 of 3, 1 judged"
    refused = {"run": "diagnosis", "person": "Anna", "at": 0, "field": "correct", "value": "1"}
    assert client.post("/annotate", data=refused).status_code == 400
    record = json.loads(client.get("/annotate/export?run=diagnosis").text)[0]
    assert (record["relevant"], record["correct"], "right_answer" in record) == (
        False,
        False,
        False,
    )


@pytest.mark.parametrize(
    "wrong",
    [{"at": 3}, {"at": -1}, {"field": "score"}, {"field": "weight"}, {"value": "2"}, {"value": ""},
     {"value": "-1"}, {"person": "  "}, {"run": "sweep/0"}, {"at": 1, "field": "same_fact"},
     {"field": "right_answer"}, {"run": "study", "field": "score", "value": "5"}],
)  # fmt: skip
def test_what_is_no_answer_is_refused_and_not_kept(wrong: dict[str, Any], client: Any) -> None:
    form = {"run": "diagnosis", "person": "Anna", "at": 0, "field": "relevant", "value": "1"}
    answer = client.post("/annotate", data=form | wrong, headers={"hx-request": "true"})
    assert answer.status_code == 400
    assert answer.text.startswith("<p>")
    for run in ("diagnosis", "study"):
        assert client.get(f"/annotate/export?run={run}").status_code == 400


def test_the_page_begins_with_the_name_and_shows_the_first_open_item(client: Any) -> None:
    nameless = client.get("/annotate?run=diagnosis").text
    assert "Is it red?" not in nameless
    assert "Begin" in nameless
    _give(client, "Anna", (0, "relevant", 0))
    page = client.get("/annotate?run=diagnosis&person=anna").text
    assert _shown(page) == "2 of 3, 1 judged"
    assert "<script>document.title" not in page
    assert "Does it ask for the same fact" not in page  # there is no question to compare with
    assert _shown(client.get("/annotate?run=diagnosis&person=Anna&at=99").text).startswith("3 of 3")
    key = client.get("/annotate?run=study&person=Anna").text
    assert "really red" not in key  # people would compare with the question of the data set
    assert client.get("/files/study/annotate.html", follow_redirects=False).headers["location"] == (
        "/annotate?run=study"
    )


def test_agreement_is_that_of_the_reference_implementation(folder: Path, client: Any) -> None:
    page = questionnaire_of(find_runs(folder)["diagnosis"])
    given = {"Anna": [1, 0, 1], "Ben": [1, 1, 1], "Chris": [0, 0, 1]}
    for person, values in given.items():
        fields = [(at, "relevant", value) for at, value in enumerate(values)]
        fields += [(at, "correct", at % 2) for at, value in enumerate(values) if value]
        _give(client, person, *fields)
    found = agreement(page, Answers(folder).of(page))
    correct = [[0, 0, 0], [0, 1, 0], [0, 0, 0]]  # what is irrelevant is not correct
    expected = {"relevant": list(given.values()), "correct": correct}
    for name, ratings in expected.items():
        alpha = krippendorff.alpha(np.array(ratings, dtype=float), level_of_measurement="nominal")
        assert found[name].startswith(f"{alpha:z.2f} (")
    assert "same_fact" not in found  # nobody said so about the only item with a reference
    text = client.get("/annotate/agreement?run=diagnosis").text
    assert f"relevant <b>{found['relevant']}</b>" in text
    assert "Anna: 2 of 3" in text  # whether item 0 asks for the same fact is open


def test_many_people_write_at_once(folder: Path) -> None:
    page = questionnaire_of(find_runs(folder)["diagnosis"])
    answers = Answers(folder)

    def judge(number: int) -> None:
        for at in range(3):
            for field in page.items[at].asks():
                answers.give(page, at, f"person {number % 8}", field, "1")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(judge, range(16)))  # each person twice
    found = answers.of(page)
    assert len(found) == 8
    assert all(own == found["person 0"] and len(own) == 3 for own in found.values())
    with sqlite3.connect(answers.file) as opened:
        assert opened.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_answers_survive_a_restart_and_belong_to_their_items(folder: Path) -> None:
    run = find_runs(folder)["diagnosis"]
    page = questionnaire_of(run)
    Answers(folder).give(page, 0, "Anna", "relevant", "1")
    assert Answers(folder).of(page) == {"Anna": {0: {"relevant": 1}}}
    file = run.folder / "annotate.html"
    file.write_text(file.read_text().replace("Is it red?", "Is it blue?"))
    assert Answers(folder).of(questionnaire_of(run)) == {}


def test_damaged_files_are_sentences(folder: Path, client: Any) -> None:
    page = folder / "diagnosis" / "annotate.html"
    good = page.read_text()
    data = '<script type="application/json" id="data">'
    for bad in ("", "<p>", data + "[]</script>", data + '{"items": [1], "images": {}}</script>',
                data + '{"items": [], "images": 1}</script>',
                good.replace('"weight": 2.5', '"weight": "x"'),
                good.replace('"images": {"1"', '"images": {"8"')):  # fmt: skip
        page.write_text(bad)
        answer = client.get("/annotate?run=diagnosis")
        assert answer.status_code == 400
        assert "annotate.html was not written by ivqa" in answer.text or "is empty" in answer.text
    page.write_text(good.replace("data:image/jpeg", "https://evil.example/jpeg"))
    assert "evil.example" not in client.get("/annotate?run=diagnosis&person=Anna").text
    (folder / "ivqa-view.sqlite3").write_text("no database at all, but a text of some length" * 9)
    answer = client.get("/annotate?run=diagnosis&person=Anna")
    assert answer.status_code == 400
    assert "answers cannot be kept (file is not a database)" in answer.text


def test_nothing_to_export_is_an_error(folder: Path) -> None:
    page = questionnaire_of(find_runs(folder)["study"])
    with pytest.raises(UserError, match="no answers to export"):
        exported(page, {"Anna": {}})
