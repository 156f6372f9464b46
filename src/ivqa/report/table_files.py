"""One table in four formats: Markdown, CSV, LaTeX and HTML."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ivqa.report.pages.base import render
from ivqa.report.tables import cell, columns_of, markdown_table
from ivqa.store.files import write_text

_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {character: "\\" + character for character in "&%$#_{}"}


def write_table(
    folder: Path, rows: Sequence[Mapping[str, Any]], title: str, name: str = "table"
) -> None:
    """Writes NAME.md, NAME.csv, NAME.tex and NAME.html.

    Args:
        folder: The folder.
        rows: Values by column; the first column names the row. Missing values are empty cells.
        title: The title of the HTML page.
        name: The name of the files, for folders with several tables.
    """
    columns = columns_of(rows)
    write_text(folder / f"{name}.md", markdown_table(rows))
    frame = pd.DataFrame([{column: row.get(column, "") for column in columns} for row in rows])
    write_text(folder / f"{name}.csv", frame.to_csv(index=False))
    write_text(folder / f"{name}.tex", latex_table(rows))
    cells = [[cell(row.get(column, "")) for column in columns] for row in rows]
    page = render("table.html.j2", title=title, names=columns, rows=cells)
    write_text(folder / f"{name}.html", page)


def latex_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats rows as a LaTeX table of the package booktabs.

    Args:
        rows: Values by column; the first column is left-aligned.

    Returns:
        A tabular environment.

    >>> print(latex_table([{"model": "a_b", "share": "0.500 ± 0.010"}]), end="")
    \\begin{tabular}{lr}
    \\toprule
    model & share \\\\
    \\midrule
    a\\_b & 0.500 $\\pm$ 0.010 \\\\
    \\bottomrule
    \\end{tabular}
    """
    names = columns_of(rows)
    lines = [[_latex(cell(row.get(name, ""))) for name in names] for row in rows]
    written = "\n".join(" & ".join(line) + r" \\" for line in lines)
    header = " & ".join(map(_latex, names)) + r" \\"
    return (
        f"\\begin{{tabular}}{{l{'r' * (len(names) - 1)}}}\n\\toprule\n{header}\n\\midrule\n"
        f"{written}\n\\bottomrule\n\\end{{tabular}}\n"
    )


def _latex(text: str) -> str:
    escaped = re.sub(r"[\\~^&%$#_{}]", lambda found: _LATEX[found[0]], text)
    return escaped.replace("±", r"$\pm$")
