"""Pages are self-contained and escape their text; tables show all values."""

import base64
import io
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from PIL import Image
from rich.console import Console

from ivqa.generators.evaluation import AskedPair, GeneratedQuestion
from ivqa.metrics import RScore
from ivqa.report.contact_sheet import data_uri, write_contact_sheet, write_contact_sheet_png
from ivqa.report.plots import write_noise_curve
from ivqa.report.tables import markdown_table, print_metrics, print_noise_curve, print_table


@pytest.fixture
def items(tmp_path: Path) -> list[AskedPair]:
    picture = tmp_path / "picture.png"
    Image.new("RGB", (320, 240), "teal").save(picture)
    best = GeneratedQuestion("What <b>color</b> is it?", -3.2, "consistent")
    other = GeneratedQuestion("Is it?", -1.0, "other answer")
    return [
        AskedPair(picture, "red & blue", "other", "What is it?", best, [best, best, other]),
        AskedPair(Image.new("L", (8, 8)), "yes", "yes/no", "Is it so?", other, [other]),
    ]


def test_the_page_is_self_contained_and_escapes(tmp_path: Path, items: list) -> None:
    page = tmp_path / "page.html"
    write_contact_sheet(page, items, "A <title>", "sub", {"cider": 1.23456, "name": "x"})
    text = page.read_text()
    assert not re.search(r"https?://", text)
    assert "&lt;b&gt;color&lt;/b&gt;" in text
    assert "red &amp; blue" in text
    assert "A &lt;title&gt;" in text
    assert text.count("<article") == 2
    assert text.count('src="data:image/jpeg;base64,') == 2
    assert "<b>1.23</b>" in text
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".html"] == ["page.html"]


def test_the_page_has_the_attributes_that_its_filters_read(tmp_path: Path, items: list) -> None:
    page = tmp_path / "page.html"
    write_contact_sheet(page, items, "t", "s", {})
    text = page.read_text()
    for attribute in ('data-type="yes/no"', 'data-verdict="consistent"', 'data-likelihood="-3.2"'):
        assert attribute in text
    assert set(re.findall(r'<button data-value="([^"]+)"', text)) == {
        "other", "yes/no", "consistent", "other answer",
    }  # fmt: skip


def test_repeated_samples_are_counted_once(tmp_path: Path, items: list) -> None:
    page = tmp_path / "page.html"
    write_contact_sheet(page, items[:1], "t", "s", {})
    text = page.read_text()
    assert "2 distinct sampled questions" in text
    assert text.count("<li ") == 2
    assert "<i>2</i>" in text


def test_a_page_without_an_oracle_has_no_verdicts(tmp_path: Path, items: list) -> None:
    plain = GeneratedQuestion("Is it?", -1.0)
    item = AskedPair(items[0].image, "yes", "yes/no", "Is it?", plain, [plain])
    write_contact_sheet(tmp_path / "page.html", [item], "t", "s", {})
    assert "all verdicts" not in (tmp_path / "page.html").read_text()


def test_a_thumbnail_shows_transparency_as_white() -> None:
    content = base64.b64decode(data_uri(Image.new("RGBA", (9, 9))).partition(",")[2])
    assert Image.open(io.BytesIO(content)).getpixel((4, 4)) == (255, 255, 255)


def test_the_picture_holds_all_items(tmp_path: Path, items: list) -> None:
    write_contact_sheet_png(tmp_path / "few.png", items, columns=2)
    write_contact_sheet_png(tmp_path / "many.png", items * 3, columns=2)
    with Image.open(tmp_path / "few.png") as few, Image.open(tmp_path / "many.png") as many:
        assert many.size == (few.width, 3 * few.height)
        assert len(few.convert("RGB").getcolors(1 << 20) or []) > 10


def _printed(rows: list[dict]) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_table(rows, title="t", console=console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_tables_are_transposed_when_they_are_too_wide() -> None:
    wide = _printed([{"setting": "a", **{f"metric_{i}": i / 7 for i in range(20)}}])
    assert "metric_19" in wide
    assert "2.714" in wide
    long = _printed([{"setting": name, "x": 1.0} for name in "abc"])
    assert long.index("a") < long.index("b") < long.index("c")


def _cells(printed: str) -> list[str]:
    """The cells of printed tables, from the first table to the last, without borders."""
    lines = [line for line in printed.split("\n") if line.startswith("│")]
    return [text.strip() for line in lines for text in line.split("│")[1:-1]]


@pytest.mark.parametrize("count", [1, 4, 12])
@pytest.mark.parametrize("columns", [1, 3, 5, 9, 30])
@pytest.mark.parametrize(
    "setting", ["m", "model=ivqa_vae ranker=lasso encoder=skip_thoughts seed="]
)
def test_a_table_fits_80_columns_and_keeps_every_figure(
    count: int, columns: int, setting: str
) -> None:
    figures = {
        f"robustness/partition_{i}/accuracy": f"{i:06.3f} ± 0.00{i % 9}" for i in range(columns)
    }
    printed = _printed([{"setting": f"{setting}{row}", **figures} for row in range(count)])
    assert max(map(len, printed.split("\n"))) <= 80
    cells = _cells(printed)
    for figure in figures.values():
        assert cells.count(figure) == count  # in one piece


def test_headings_and_rows_are_repeated_in_each_part() -> None:
    rows = [
        {"setting": f"m{row}", **{f"c{i}": f"{row}.{i} ± 0.0000001" for i in range(6)}}
        for row in range(7)
    ]
    printed = _printed(rows)
    first, second = printed.split("(continued)")
    assert [f"c{i}" in first for i in range(6)] == [True] * 3 + [False] * 3
    assert [f"c{i}" in second for i in range(6)] == [False] * 3 + [True] * 3
    assert all(f"│ m{row} " in part for row in range(7) for part in (first, second))
    assert _cells(second)[:4] == ["m0", *(f"0.{i} ± 0.0000001" for i in (3, 4, 5))]


def test_brackets_are_printed() -> None:
    printed = _printed([{"setting": "image_features=[grid]", "[x]": "[0.1, 0.2]"}] * 2)
    assert {"image_features=[grid]", "[0.1, 0.2]"} <= set(_cells(printed))
    assert "[x]" in printed


def test_metrics_and_noise_curves_fit_80_columns() -> None:
    metrics = {"a/" * 50: 1234567.0, "robustness/uncertified": 3.0}
    kinds = (
        "accuracy",
        "accuracy_low",
        "accuracy_high",
        "yes_no",
        "number",
        "other",
        "flips",
        "polling_accuracy",
    )
    for level in range(8):
        metrics |= {f"robustness/partition_{level}/{kind}": level / 9 for kind in kinds}
        metrics[f"robustness/r_score_partition_{level}"] = 0.125 + level
    metrics |= {"robustness/below_blind": 1.0, "robustness/blind_accuracy": 0.25}
    console = Console(file=io.StringIO(), width=80)
    print_metrics(metrics, title="t", console=console)
    print_noise_curve(metrics, "MLB", RScore(limit=0.3), console=console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    table, notes = printed[: printed.index("R_score 0:")], printed[printed.index("R_score 0:") :]
    assert max(map(len, table.split("\n"))) <= 80
    # Level 7 has an accuracy of 7 / 9, that without noise is 0: -77.8 points are lost.
    assert {"1234567", "3", ".778-.778", "-77.8", "7.125"} <= set(_cells(table))
    ends, warning = notes.splitlines()
    assert (
        ends == "R_score 0: the accuracy changes by 30 points or more; 1: by 0.05 points or less."
    )
    assert warning.startswith("R_score says nothing about MLB: without noise its accuracy is 0.0%")
    assert "25.0%" in warning


@pytest.mark.parametrize(("below", "note"), [(1.0, ", not above blind"), (0.0, "")])
def test_the_picture_of_a_noise_curve_says_what_is_lost_and_who_is_blind(
    below: float, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[plt.Figure] = []
    monkeypatch.setattr(plt, "close", figures.append)
    metrics = {"robustness/partition_0/accuracy": 0.811, "robustness/partition_1/accuracy": 0.588}
    metrics |= {"robustness/r_score": 0.0, "robustness/below_blind": below}
    write_noise_curve(tmp_path / "x.png", {"MLB": metrics})
    (label,) = figures[0].axes[0].get_legend().get_texts()
    assert label.get_text() == f"MLB, R_score 0.00 (22.3 points{note})"
    assert figures[0].axes[1].lines[0].get_ydata() == pytest.approx([0, 0.223])


def test_markdown_has_one_line_for_each_row() -> None:
    table = markdown_table([{"model": "a", "x": 0.123456}, {"model": "b", "y": 3.0}])
    assert table.splitlines() == [
        "| model | x | y |",
        "|---|---:|---:|",
        "| a | 0.1235 |  |",
        "| b |  | 3 |",
    ]


def test_metrics_are_printed_by_name() -> None:
    console = Console(file=io.StringIO(), width=80)
    print_metrics({"val/loss": 1.25}, title="t", console=console)
    assert "val/loss" in console.file.getvalue()  # type: ignore[attr-defined]
