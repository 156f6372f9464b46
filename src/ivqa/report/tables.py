"""Tables for the terminal, and as Markdown, CSV, LaTeX and HTML."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ivqa.metrics import RScore
from ivqa.report.noise_words import accuracy_in_words, below_blind, ends_of_score
from ivqa.report.pages.base import write_page
from ivqa.store.files import write_text

_PAGES = ("report.html", "robustness.html", "questions.html", "consistency.html")
_HEADING = 16  # characters of a heading before it folds inside of a word
# Metrics with many values, which print_metrics leaves out.
_LONG = re.compile(
    r"robustness/(r_score_)?partition_|vqa/question_type/|consistency/\w+/(rate|implied)"
)


def print_metrics(metrics: Mapping[str, float], *, title: str, console: Console) -> None:
    """Prints flat metrics as a two-column table.

    Metrics of partitions are left out, which `print_noise_curve` prints, those of the rules of
    consistency, which have a table, and those of question types, which only metrics.json has.
    """
    shown = {name: cell(value) for name, value in metrics.items() if not _LONG.match(name)}
    columns = [("metric", list(shown)), ("value", list(shown.values()))]
    _print_columns(columns, title=title, console=console)


def noise_rows(metrics: Mapping[str, float]) -> list[dict[str, Any]]:
    """Converts robustness/partition_K/... to rows, one for each level of noise.

    A row has "level", the figures of the level, "points lost" (of accuracy, in percentage points)
    and "R_score" (both NaN without noise).
    """
    rows: list[dict[str, Any]] = []
    while f"robustness/partition_{len(rows)}/accuracy" in metrics:
        level = len(rows)
        start = f"robustness/partition_{level}/"
        row = {key.removeprefix(start): metrics[key] for key in metrics if key.startswith(start)}
        score = metrics.get(f"robustness/r_score_partition_{level}", float("nan"))
        clean = rows[0]["accuracy"] if rows else float("nan")
        lost = 100 * (clean - row["accuracy"])
        rows.append({"level": level, **row, "points lost": lost, "R_score": score})
    return rows


def noise_columns(metrics: Mapping[str, float]) -> list[tuple[str, list[str]]]:
    """Formats robustness/partition_K/... as columns with a cell for each level of noise.

    The fall of accuracy stands beside R_score, which is 0 for any large one. Accuracies by answer
    type, those of multiple choice and the share of questions that are cut are left out where they
    are unknown.
    """
    rows = noise_rows(metrics)

    def column(name: str, decimals: int = 3) -> list[str]:
        """The values of a figure; empty where it is absent, or NaN, as R_score without noise."""
        values = [row.get(name, float("nan")) for row in rows]
        return ["" if value != value else f"{value:.{decimals}f}" for value in values]

    def interval(row: Mapping[str, Any]) -> str:
        ends = (f"{row[f'accuracy_{end}']:.3f}" for end in ("low", "high"))
        return "-".join(end.removeprefix("0") for end in ends)

    def share(value: float) -> str:
        return "<1" if 0 < value < 0.005 else f"{100 * value:.0f}"

    # Names of other figures than accuracies by answer type; the share of flips has no room here.
    others = ("level", "accuracy", "R_score", "acc_diff", "points lost", "flips", "truncated")
    known = _columns_of(rows)
    kinds = [name for name in known if not name.startswith((*others, "multiple_choice"))]
    # Three decimals: the table is then as wide as a terminal of 80 characters.
    columns = [
        ("level", [str(row["level"]) if row["level"] else "clean" for row in rows]),
        ("all", column("accuracy")),
        ("95 percent", list(map(interval, rows))),
        *((_heading(kind), column(kind)) for kind in kinds),
        ("points lost", ["", *column("points lost", 1)[1:]]),
        ("R_score", column("R_score")),
    ]
    if "truncated" in known:
        columns.append(("cut %", [share(row["truncated"]) for row in rows]))
    if "multiple_choice" in known:
        columns.append(("multiple choice", column("multiple_choice")))
    return columns


def _heading(kind: str) -> str:
    """The name of an answer type, "yes_no" or one of a data set's own, for people."""
    return "yes/no" if kind == "yes_no" else kind.replace("_", " ")


def print_noise_curve(
    metrics: Mapping[str, float], name: str, r_score: RScore, *, console: Console
) -> None:
    """Prints the columns of `noise_columns`, and notes about R_score."""
    title = f"accuracy under noise: {accuracy_in_words(r_score.accuracy)}"
    _print_columns(noise_columns(metrics), title=title, console=console)
    for line in (ends_of_score(r_score), *below_blind(name, metrics)):
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def print_table(rows: Sequence[Mapping[str, Any]], *, title: str, console: Console) -> None:
    """Prints a table, whose first column names the rows; with more columns than rows, transposed.

    A table that is wider than the terminal is printed in several parts.
    """
    header, *names = _columns_of(rows)
    if len(names) > len(rows):
        columns = [("", names)]
        columns += [(str(row[header]), [cell(row.get(name, "")) for name in names]) for row in rows]
    else:
        columns = [(name, [cell(row.get(name, "")) for row in rows]) for name in (header, *names)]
    _print_columns(columns, title=title, console=console)


def _print_columns(
    columns: Sequence[tuple[str, Sequence[str]]], *, title: str, console: Console
) -> None:
    """Prints columns of texts; where they are wider than the terminal, in several tables.

    Cells stay in one piece if the terminal is wide enough for one of them beside the first column,
    which names the rows and stands in each table.
    """
    first, *others = columns
    frame = 3  # characters of padding and border that a column adds
    # The first column may fold: half of the terminal is enough for it.
    width = min(_width(*first), (console.width - 1) // 2 - frame)
    room = console.width - 1 - width - frame
    widths = [min(_width(*column), room - frame) for column in others]
    begin = 0
    while begin < len(others):
        end = begin + 1
        while (
            end < len(others) and sum(widths[begin : end + 1]) + frame * (end + 1 - begin) <= room
        ):
            end += 1
        # Text, since Rich would read "[grid]" in a plain string as markup.
        table = Table(title=Text(title if begin == 0 else f"{title} (continued)"))
        table.add_column(Text(first[0]), overflow="fold", width=width)
        for (name, _), own in zip(others[begin:end], widths[begin:end], strict=True):
            table.add_column(Text(name), justify="right", overflow="fold", width=own)
        for cells in zip(first[1], *(cells for _, cells in others[begin:end]), strict=True):
            table.add_row(*map(Text, cells))
        console.print(table)
        begin = end


def _width(heading: str, cells: Sequence[str]) -> int:
    """Characters of the longest cell; a heading may fold between its words, or after 16."""
    words = [min(cell_len(word), _HEADING) for word in heading.split()]
    return max([*words, *map(cell_len, cells)], default=1)


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats rows as a Markdown table; the first column is left-aligned.

    >>> print(markdown_table([{"model": "mlb", "accuracy": 0.8}]), end="")
    | model | accuracy |
    |---|---:|
    | mlb | 0.8 |
    """
    names = _columns_of(rows)
    lines = [
        "| " + " | ".join(names) + " |",
        "|" + "---|" + "---:|" * (len(names) - 1),
        *("| " + " | ".join(cells) + " |" for cells in _cells(rows)),
    ]
    return "\n".join(lines) + "\n"


def _columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys of all rows, in the order of their first occurrence."""
    return list(dict.fromkeys(key for row in rows for key in row))


def cell(value: Any) -> str:
    """Formats a value: integers in full, other numbers with four significant digits.

    >>> [cell(value) for value in (12000.0, 0.12345, "mlb", float("nan"))]
    ['12000', '0.1235', 'mlb', 'nan']
    """
    if isinstance(value, float) and value == value:
        return str(int(value)) if value.is_integer() and abs(value) >= 1 else f"{value:.4g}"
    return str(value)


def with_interval(value: float, low: float, high: float) -> str:
    """Formats a value with its interval.

    >>> with_interval(0.912, -0.001, 1)
    '0.91 (0.00, 1.00)'
    """
    return f"{value:z.2f} ({low:z.2f}, {high:z.2f})"


def write_table(
    folder: Path,
    rows: Sequence[Mapping[str, Any]],
    title: str,
    name: str = "table",
    runs: Sequence[Sequence[str | Path]] = (),
) -> None:
    """Writes NAME.md, NAME.csv, NAME.tex and NAME.html, with empty cells for missing values.

    Args:
        runs: The run directories behind each row, inside `folder`, to which the page links; may be
            empty.
    """
    columns = _columns_of(rows)
    write_text(folder / f"{name}.md", markdown_table(rows))
    frame = pd.DataFrame([{column: row.get(column, "") for column in columns} for row in rows])
    write_text(folder / f"{name}.csv", frame.to_csv(index=False))
    write_text(folder / f"{name}.tex", latex_table(rows))
    links = [[_link(folder, Path(run)) for run in own] for own in runs] or [[] for _ in rows]
    html = folder / f"{name}.html"
    body = list(zip(_cells(rows), links, strict=True))
    write_page(html, "table.html.j2", title=title, names=columns, rows=body, linked=any(links))


def _link(folder: Path, run: Path) -> tuple[str, str]:
    """Name and relative address of the page of a run, or of its directory where it has none."""
    pages = (run / page for page in _PAGES)
    target = next((page for page in pages if page.is_file()), run)
    return run.name, quote(os.path.relpath(target, folder))


def latex_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats rows as a LaTeX table of the package booktabs; the first column is left-aligned.

    >>> print(latex_table([{"model": "a_b", "share": "0.500 ± 0.010"}]), end="")
    \\begin{tabular}{lr}
    \\toprule
    model & share \\\\
    \\midrule
    a\\_b & 0.500 $\\pm$ 0.010 \\\\
    \\bottomrule
    \\end{tabular}
    """
    table = pd.DataFrame(_cells(rows), columns=_columns_of(rows)).to_latex(
        index=False, escape=True, column_format="l" + "r" * (len(_columns_of(rows)) - 1)
    )
    return table.replace("±", r"$\pm$")


def _cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    return [[cell(row.get(name, "")) for name in _columns_of(rows)] for row in rows]
