"""Tables for the terminal and for Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_OF_PARTITIONS = ("robustness/partition_", "robustness/r_score_partition_")


def print_metrics(metrics: Mapping[str, float], *, title: str, console: Console) -> None:
    """Prints flat metrics as a two-column table; `print_noise_curve` has those of partitions."""
    table = Table(title=title)
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, value in metrics.items():
        if not name.startswith(_OF_PARTITIONS):
            table.add_row(name, cell(value))
    console.print(table)


def print_noise_curve(metrics: Mapping[str, float], *, console: Console) -> None:
    """Prints robustness/partition_K/... as a table, one level of noise a row."""
    names = list(
        dict.fromkeys(
            key.split("/")[2] for key in metrics if key.startswith("robustness/partition_")
        )
    )
    table = Table(title="accuracy under noise")
    for name in ("level", *names, "R_score"):
        table.add_column(name, justify="right")
    level = 0
    while f"robustness/partition_{level}/accuracy" in metrics:
        values = [metrics.get(f"robustness/partition_{level}/{name}", "") for name in names]
        score = metrics.get(f"robustness/r_score_partition_{level}", "")
        table.add_row(str(level) if level else "0, clean", *map(cell, values), cell(score))
        level += 1
    console.print(table)


def print_table(rows: Sequence[Mapping[str, Any]], *, title: str, console: Console) -> None:
    """Prints rows of values; the first key names a row.

    Rows become columns where there are more values than fit side by side.
    """
    header, *names = columns_of(rows)
    table = Table(title=title)
    if len(names) > len(rows):
        table.add_column("", overflow="fold")
        for row in rows:
            table.add_column(str(row[header]), justify="right", overflow="fold")
        for name in names:
            table.add_row(name, *(cell(row.get(name, "")) for row in rows))
    else:
        for name in (header, *names):
            table.add_column(name, justify="left" if name == header else "right", overflow="fold")
        for row in rows:
            table.add_row(*(cell(row.get(name, "")) for name in (header, *names)))
    console.print(table)


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The same rows as a Markdown table, one line a row."""
    names = columns_of(rows)
    lines = [
        "| " + " | ".join(names) + " |",
        "|" + "---|" + "---:|" * (len(names) - 1),
        *("| " + " | ".join(cell(row.get(name, "")) for name in names) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """All keys of the rows, in the order in which they are met."""
    return list(dict.fromkeys(key for row in rows for key in row))


def cell(value: Any) -> str:
    """A value as text: whole numbers whole, others with four significant digits.

    >>> [cell(value) for value in (12000.0, 0.12345, "mlb", float("nan"))]
    ['12000', '0.1235', 'mlb', 'nan']
    """
    if isinstance(value, float) and value == value:
        return str(int(value)) if value.is_integer() and abs(value) >= 1 else f"{value:.4g}"
    return str(value)
