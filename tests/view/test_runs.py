"""The list of runs, and runs side by side."""

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra view")
from ivqa.view.runs import compared_figures, differing_settings, find_runs, listed


def test_every_run_below_the_folder_is_found(folder: Path) -> None:
    (folder / "sweep" / "0" / "checkpoints").mkdir()
    (folder / "sweep" / "0" / "checkpoints" / "config.yaml").touch()
    (folder / "loop").symlink_to(folder)
    runs = find_runs(folder)
    assert set(runs) == {"sweep/0", "sweep/1", "diagnosis", "study"}
    assert runs["diagnosis"].pages == ["report.html", "annotate.html"]
    assert runs["sweep/1"].model == "MLB"
    assert find_runs(folder / "diagnosis")["."].address == ""


def test_a_damaged_run_is_listed_with_its_fault(folder: Path, client: Any) -> None:
    file = folder / "diagnosis" / "metrics.json"
    file.write_text('{"beliefs/count": "many"}')
    assert find_runs(folder)["diagnosis"].fault == (
        f"{file}: beliefs/count must be a number, not 'many'; run it again"
    )
    (folder / "sweep" / "1" / "config.yaml").write_text("a: [")
    for address in ("/", "/run?name=sweep/1", "/run?name=diagnosis"):
        assert client.get(address).status_code == 200
    assert "is damaged" in client.get("/run?name=sweep/1").text
    assert client.get("/compare?run=sweep/0&run=sweep/1").status_code == 400


@pytest.mark.parametrize(
    ("sort", "order", "expected"),
    [
        ("vqa/accuracy", "down", ["sweep/1", "sweep/0", "diagnosis", "study"]),
        ("vqa/accuracy", "up", ["sweep/0", "sweep/1", "diagnosis", "study"]),
        ("started", "down", ["diagnosis", "sweep/1", "sweep/0", "study"]),
        ("name", "up", ["diagnosis", "study", "sweep/0", "sweep/1"]),
        ("unknown", "up", ["diagnosis", "study", "sweep/0", "sweep/1"]),
    ],
)
def test_runs_without_a_value_come_last(
    sort: str, order: Any, expected: list[str], folder: Path
) -> None:
    runs = list(find_runs(folder).values())
    assert [run.name for run in listed(runs, find="", sort=sort, order=order)] == expected


def test_all_words_are_searched(folder: Path, client: Any) -> None:
    runs = list(find_runs(folder).values())
    found = listed(runs, find="MLB sweep", sort="name", order="up")
    assert [run.name for run in found] == ["sweep/0", "sweep/1"]
    text = client.get("/?find=vanilla").text
    assert re.findall(r'name="run" value="([^"]*)"', text) == ["diagnosis"]
    assert "1 shown" in text


def test_columns_are_chosen_and_stay_in_the_address(client: Any) -> None:
    text = client.get("/?figure=cider&figure=nothing&sort=cider&order=up&find=a%26b").text
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', text)
    assert [re.sub("<.*?>", "", head) for head in heads] == [
        "compare", "run", "model", "started", "cider"
    ]  # fmt: skip
    assert (
        'aria-sort="ascending"><a href="/?find=a%26b&amp;sort=cider&amp;order=down&amp;figure=cider'
        in text
    )
    shown = client.get("/").text  # intervals by the ends that metrics.json has
    assert "<td>0.50 (0.40, 0.60)</td>" in shown
    assert "<td>0.75</td>" in shown


def test_settings_and_figures_that_differ(folder: Path, client: Any) -> None:
    runs = find_runs(folder)
    chosen = [runs["sweep/0"], runs["sweep/1"]]
    (row,) = differing_settings(chosen)  # output_dir differs too, and says nothing
    assert (row.name, row.values) == ("seed", ["1", "2"])
    rows = {row.name: (row.values, row.differences) for row in compared_figures(chosen)}
    assert rows == {
        "vqa/accuracy": (["0.50 (0.40, 0.60)", "0.75"], ["+0.25"]),
        "cider": (["", "2"], [""]),
    }
    text = client.get("/compare?run=sweep/0&run=sweep/1").text
    assert text.index("<td>+0.25</td>") < text.index("Settings that differ</h2>")


def test_runs_are_paired_where_all_have_their_answers(folder: Path, client: Any) -> None:
    advice = f"compare=[{folder}/sweep/0,{folder}/sweep/1]"
    for name, is_advised in (("0", False), ("1", True)):
        (folder / "sweep" / name / "robustness.parquet").touch()
        text = client.get("/compare?run=sweep/0&run=sweep/1").text
        assert (advice in text) == is_advised


def test_what_runs_hold_is_escaped(folder: Path, client: Any) -> None:
    place = folder / "<b>bold&amp;"
    (folder / "diagnosis").rename(place)
    (place / "config.yaml").write_text("name: '<script>alert(1)</script>'")
    (place / "metrics.json").write_text('{"<i>": 1}')
    for address in ("/", "/ask", "/annotate"):
        assert "<b>bold" not in client.get(address).text
    page = client.get("/run", params={"name": place.name}).text
    assert "<b>bold" not in page
    assert "<i>" not in page
    assert "<script>alert" not in page
    link = re.search(r'href="(/files/[^"]*report.html)"', page)
    assert link is not None
    assert client.get(link[1]).text == "<title>the report</title>"
