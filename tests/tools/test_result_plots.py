"""Plots of the page of results: what they show, and that the same figures give the same file."""

import re
from pathlib import Path
from typing import Any

import pytest
from tools.experiments import Experiment, Project, Record
from tools.result_plots import mark_of, write_plot

from documented_commands import PROJECT

METRICS = {"clean": ["p0", ".1%"], "1": ["p1", ".1%"], "R": ["r", ".2f", "interval"]}
SETTINGS = {
    "mlb": [{"p0": 0.8, "p1": 0.5, "r": 0.25, "r_low": 0.2, "r_high": 0.3}],
    "mutan": [{"p0": 0.7, "p1": 0.6, "r": 0.5}],
}


def made(path: Path, kind: str, headings: list[str], **changed: Any) -> str:
    values: dict[str, Any] = {"plot": {kind: headings}, "names": {"mlb": "The MLB"}, **changed}
    settings = values.pop("settings", SETTINGS)
    write_plot(
        path, Experiment("e", "evaluate.py", METRICS, **values), Record("a", "", 0, settings)
    )
    return path.read_text()


@pytest.mark.parametrize(("kind", "headings"), [("curve", ["clean", "1"]), ("bars", ["R", "1"])])
def test_a_plot_names_its_settings_and_is_the_same_each_time(
    kind: str, headings: list[str], tmp_path: Path
) -> None:
    text = made(tmp_path / "a.svg", kind, headings)
    assert text == made(tmp_path / "b.svg", kind, headings)
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", text)
    assert {"The MLB", "mutan", headings[0]} <= set(shown)
    assert "dc:date" not in text
    width = re.search(r'<svg [^>]*width="([\d.]+)pt"', text)
    assert width is not None
    assert float(width[1]) <= 600


def test_a_curve_has_its_means_at_the_right_heights(tmp_path: Path) -> None:
    seeds = {"mlb": [{"p0": 0.9, "p1": 0.2}, {"p0": 0.7, "p1": 0.4}, {"p0": 0.8, "p1": 0.3}]}
    text = made(tmp_path / "a.svg", "curve", ["clean", "1"], settings=seeds)
    heights = {
        int(label): float(y)
        for y, label in re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>(\d0)</text>', text)
    }
    assert len(heights) >= 2
    (low, below), (high, above) = min(heights.items()), max(heights.items())
    (line,) = re.findall(r'<path d="M ([\d. ]+)\nL ([\d. ]+)\n"[^>]*stroke: #0072b2', text)
    values = [
        low + (below - float(point.split()[1])) / (below - above) * (high - low) for point in line
    ]
    assert values == pytest.approx([80, 30], abs=2)  # a label stands below its tick
    assert values[0] - values[1] == pytest.approx(50, abs=0.1)


def test_a_file_is_written_again_only_for_other_figures(tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    text = made(file, "bars", ["R"])
    file.write_text(f"{text}<!-- by another version of matplotlib -->")
    assert made(file, "bars", ["R"]) != text
    assert made(file, "bars", ["R"], names={}) != text
    assert made(file, "bars", ["R"]) == text
    other = {"mlb": [{"p0": 0.8, "p1": 0.5, "r": 0.26}], "mutan": SETTINGS["mutan"]}
    assert made(file, "bars", ["R"], settings=other) != text


def test_each_plot_of_the_page_shows_the_records() -> None:
    project = Project(PROJECT)
    records = project.records()
    page = (PROJECT / "docs" / "results.md").read_text()
    plotted = {
        name: one for name, one in project.experiments().items() if one.plot and name in records
    }
    assert plotted
    for name, experiment in plotted.items():
        assert f"(results/{name}.svg)" in page
        text = (project.plots / f"{name}.svg").read_text()
        assert mark_of(experiment, records[name]) in text, "run python -m tools.results --page"
    assert {file.stem for file in project.plots.glob("*.svg")} == set(plotted)
