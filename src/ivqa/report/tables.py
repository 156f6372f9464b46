"""Tables for the terminal and for Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table


def print_metrics(metrics: Mapping[str, float], *, title: str, console: Console) -> None:
    """Prints flat metrics as a two-column table."""
    table = Table("metric", "value", title=title)
    for name, value in metrics.items():
        table.add_row(name, f"{value:.4g}")
    console.print(table)


def print_table(rows: Sequence[Mapping[str, Any]], *, title: str, console: Console) -> None:
    """Prints rows under the union of their keys."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*(str(row.get(column, "")) for column in columns))
    console.print(table)


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The same rows as a Markdown table."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(str(row.get(column, "")) for column in columns) + " |")
    return "\n".join(lines) + "\n"
