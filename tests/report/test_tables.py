"""Tables in four formats, and stacked bars."""

import csv
import html
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from ivqa.report.plots import write_shares
from ivqa.report.tables import latex_table, write_table

ROWS = [
    {"setting": "model=a_b", "CIDEr": "1.200 ± 0.010", "Acc@1": 0.25},
    {"setting": "<script>x</script> & 5%", "CIDEr": 0.5},
]


def test_the_four_files_hold_the_same_values(tmp_path: Path) -> None:
    write_table(tmp_path, ROWS, "Inverse VQA")
    with (tmp_path / "table.csv").open(encoding="utf-8") as stream:
        assert list(csv.reader(stream)) == [
            ["setting", "CIDEr", "Acc@1"],
            ["model=a_b", "1.200 ± 0.010", "0.25"],
            ["<script>x</script> & 5%", "0.5", ""],
        ]
    page = (tmp_path / "table.html").read_text()
    assert "<script>x" not in page
    cells = [html.unescape(text) for text in re.findall(r"<td>(.*?)</td>", page)]
    assert cells == ["model=a_b", "1.200 ± 0.010", "0.25", "<script>x</script> & 5%", "0.5", ""]
    assert "| model=a_b | 1.200 ± 0.010 | 0.25 |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "table.tex").read_text() == latex_table(ROWS)


def test_latex_escapes_what_is_special() -> None:
    lines = latex_table([{"a_b": r"50% & $x_1$ {y} #2 ~ ^ \z", "c": 1.0}]).splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[2] == r"a\_b & c \\"
    assert lines[4] == (
        r"50\% \& \$x\_1\$ \{y\} \#2 \textasciitilde \space \textasciicircum \space "
        r"\textbackslash z & 1 \\"
    )


def test_the_bars_are_as_long_as_their_shares(tmp_path: Path) -> None:
    shares = pd.DataFrame({"gt": [0.25, 1.0], "ct": [0.75, 0.0]}, index=["first", "second"])
    write_shares(tmp_path / "shares.png", shares)
    pixels = np.array(Image.open(tmp_path / "shares.png").convert("RGB")).astype(int)

    def amount(color: tuple[int, int, int]) -> int:
        return int((abs(pixels - color).sum(axis=2) < 12).sum())

    # The patches of the legend and the numbers in the bars change the ratio a little.
    ratio = amount((0, 0x9E, 0x73)) / amount((0x56, 0xB4, 0xE9))
    assert ratio == pytest.approx(1.25 / 0.75, rel=0.1)


@pytest.mark.skipif(
    subprocess.run(["which", "pdflatex"], capture_output=True).returncode != 0,
    reason="needs pdflatex",
)
def test_latex_compiles(tmp_path: Path) -> None:
    body = latex_table(ROWS)
    (tmp_path / "t.tex").write_text(
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}" + body + "\\end{document}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "t.tex"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0
