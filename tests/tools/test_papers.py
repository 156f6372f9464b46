"""docs/papers.md: up to date, with files that exist, commands that compose, and every row."""

import re

import pytest
from tools.experiments import Project
from tools.papers import FILE, PAGE, PAPERS, papers_page

import documented_commands as documented
from documented_commands import PROJECT
from ivqa.store.files import read_yaml

CONTENT = read_yaml(PROJECT / FILE, dict)
ITEMS = CONTENT["items"]


def test_the_page_is_that_of_its_list_and_of_the_records() -> None:
    text = papers_page(CONTENT, Project(PROJECT).records())
    assert (PROJECT / PAGE).read_text() == text, "run python -m tools.papers"


@pytest.mark.parametrize("item", ITEMS, ids=[one["id"] for one in ITEMS])
def test_the_code_of_an_item_exists(item: dict) -> None:
    assert item["paper"] in PAPERS
    assert item["code"]
    for file in item["code"]:
        assert (PROJECT / "src" / "ivqa" / file).is_file(), file
    assert item["differs"].endswith(".")


def test_the_page_has_every_command() -> None:
    """tests/documentation/test_commands.py composes those of the page."""
    listed = {one["command"] for one in ITEMS if "command" in one}
    assert PROJECT / PAGE in documented.PAGES
    assert {command.text for command in documented.commands(PROJECT / PAGE)} >= listed


def test_every_item_equation_table_and_figure_is_there_once() -> None:
    assert len({one["id"] for one in ITEMS}) == len(ITEMS)
    named = {paper: " ".join(i["item"] for i in ITEMS if i["paper"] == paper) for paper in PAPERS}
    for number in range(1, 6):
        assert re.search(rf"\bTable {number}\b", named["iVQA"])
    for text in ("equations 10 to 14", "Figure 4", "Figure 5", "Algorithm 1", "ablation"):
        assert text in named["iVQA"]
    for text in (
        "LASSO",
        "Equation 2",
        "Equation 3",
        "Tables 1 and 2",
        "Table 3",
        "Figure 2",
        "Figure 3",
    ):
        assert text in named["ROB"]
    for text in ("Table 1", "Table 4", "Tables 5 to 7", "Table 8", "Tables 9 to 22", "Algorithm 1"):
        assert text in named["IJCV"]


def test_the_nineteen_differences_have_a_state() -> None:
    assert [one["row"] for one in CONTENT["gaps"]] == list(range(1, 20))
    for one in CONTENT["gaps"]:
        assert re.match(r"(closed by|open:) \S", one["state"]), one


def test_each_finding_names_an_experiment() -> None:
    known = Project(PROJECT).experiments()
    assert all(one["experiment"] in known for one in CONTENT["findings"])
