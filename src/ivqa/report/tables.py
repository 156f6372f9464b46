"""Tables for the terminal and for Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

# Metrics with many values, which print_metrics leaves out.
_LONG = ("robustness/partition_", "robustness/r_score_partition_", "vqa/question_type/")


def print_metrics(metrics: Mapping[str, float], *, title: str, console: Console) -> None:
    """Prints flat metrics as a two-column table.

    Metrics of partitions are left out, which `print_noise_curve` prints, and those of question
    types, which only metrics.json has.

    Args:
        metrics: Values by name.
        title: The title of the table.
        console: The terminal.
    """
    table = Table(title=title)
    table.add_column("metric")
    table.add_column("value", justify="right")
    for name, value in metrics.items():
        if not name.startswith(_LONG):
            table.add_row(name, cell(value))
    console.print(table)


def noise_rows(metrics: Mapping[str, float]) -> list[dict[str, Any]]:
    """Converts robustness/partition_K/... to rows, one for each level of noise.

    Args:
        metrics: Values by name.

    Returns:
        Rows with "level", the figures of the level, and "R_score" (NaN without noise).
    """
    rows: list[dict[str, Any]] = []
    while f"robustness/partition_{len(rows)}/accuracy" in metrics:
        level = len(rows)
        start = f"robustness/partition_{level}/"
        row = {key.removeprefix(start): metrics[key] for key in metrics if key.startswith(start)}
        score = metrics.get(f"robustness/r_score_partition_{level}", float("nan"))
        rows.append({"level": level, **row, "R_score": score})
    return rows


def print_noise_curve(metrics: Mapping[str, float], *, console: Console) -> None:
    """Prints robustness/partition_K/... as a table, one row for each level of noise.

    Args:
        metrics: Values by name.
        console: The terminal.
    """
    rows = noise_rows(metrics)
    # Answer types, and the share of flips; Acc_diff follows from the accuracies.
    own = ("level", "R_score", "acc_diff")
    kinds = [name for name in columns_of(rows) if not name.startswith(("accuracy", *own))]
    table = Table(title="accuracy under noise")
    # Three decimals: with four, the table is wider than a terminal of 80 characters.
    for name in ("level", "accuracy", "95 percent", *kinds, "R_score"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            str(row["level"]) if row["level"] else "clean",
            f"{row['accuracy']:.3f}",
            f"{row['accuracy_low']:.3f}-{row['accuracy_high']:.3f}",
            *(f"{row[kind]:.3f}" if kind in row else "" for kind in kinds),
            f"{row['R_score']:.3f}" if row["level"] else "",
        )
    console.print(table)


def print_table(rows: Sequence[Mapping[str, Any]], *, title: str, console: Console) -> None:
    """Prints a table; if it has more columns than rows, it is transposed.

    Args:
        rows: Values by column; the first column names the row.
        title: The title of the table.
        console: The terminal.
    """
    header, *names = columns_of(rows)
    table = Table(title=title)
    if len(names) > len(rows):  # a terminal is about 100 characters wide
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
    """Formats rows as a Markdown table.

    Args:
        rows: Values by column; the first column is left-aligned.

    Returns:
        The table, with one line for each row.

    >>> print(markdown_table([{"model": "mlb", "accuracy": 0.8}]), end="")
    | model | accuracy |
    |---|---:|
    | mlb | 0.8 |
    """
    names = columns_of(rows)
    lines = [
        "| " + " | ".join(names) + " |",
        "|" + "---|" + "---:|" * (len(names) - 1),
        *("| " + " | ".join(cell(row.get(name, "")) for name in names) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys of all rows, in the order of their first occurrence.

    Args:
        rows: Values by column.

    Returns:
        Names of columns.
    """
    return list(dict.fromkeys(key for row in rows for key in row))


def cell(value: Any) -> str:
    """Formats a value: integers in full, other numbers with four significant digits.

    Args:
        value: A number or a text.

    Returns:
        The text.

    >>> [cell(value) for value in (12000.0, 0.12345, "mlb", float("nan"))]
    ['12000', '0.1235', 'mlb', 'nan']
    """
    if isinstance(value, float) and value == value:
        return str(int(value)) if value.is_integer() and abs(value) >= 1 else f"{value:.4g}"
    return str(value)


def with_interval(value: float, low: float, high: float) -> str:
    """Formats a value with its interval.

    Args:
        value: The value.
        low: Lower bound of the interval.
        high: Upper bound.

    Returns:
        The text, with two decimals.

    >>> with_interval(0.912, -0.001, 1)
    '0.91 (0.00, 1.00)'
    """
    return f"{value:z.2f} ({low:z.2f}, {high:z.2f})"
