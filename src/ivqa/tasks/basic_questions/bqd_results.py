"""Results of the tasks rank and merge: files and a table about a basic question dataset (BQD)."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from ivqa.ranking import TOLERANCE, scores_of, write_records
from ivqa.report import print_metrics
from ivqa.robustness import selection_figures
from ivqa.store.files import write_json


def finish_bqd(
    run_dir: Path,
    file: Path,
    table: pa.Table,
    metrics: dict[str, float],
    title: str,
    console: Console,
    *,
    records: bool,
) -> float:
    """Writes metrics.json, prints the metrics, and warns about uncertified rankings.

    Args:
        run_dir: The run directory.
        file: The Parquet file of the BQD, which is already written.
        table: The BQD, one row for each main question.
        metrics: Values by name.
        title: The title of the printed table.
        console: The terminal.
        records: Whether to write the BQD to bqd.json too.

    Returns:
        The number of main questions.
    """
    if records:
        write_records(run_dir / "bqd.json", table)
    write_json(run_dir / "metrics.json", metrics)
    print_metrics(metrics, title=title, console=console)
    if count := int(metrics.get("bqd/uncertified", 0)):
        console.print(
            f"warning: {count} of {len(table)} rankings are uncertified; their order may be wrong "
            "(column 'uncertified'). ranker.on_uncertified=error stops at such a ranking.",
            style="yellow",
        )
    console.print(f"basic questions: {file}\nrun: {run_dir}", soft_wrap=True)
    return float(len(table))


def bqd_figures(table: pa.Table) -> dict[str, float]:
    """Computes the metrics of a BQD.

    Args:
        table: The BQD, one row for each main question.

    Returns:
        bqd/...: sizes, the largest duality gap, the share of rankings with fewer basic questions
        than columns, and the number of uncertified rankings. vqabq/...: how many basic questions
        VQABQ selects.
    """
    figures: dict[str, Any] = {
        "bqd/main_questions": len(table),
        "bqd/distinct_main_questions": pc.count_distinct(table["question"]).as_py(),
    }
    if len(table):
        scores = scores_of(table)
        short = np.asarray(table["support"]) < scores.shape[1]
        figures |= {"bqd/gap": pc.max(table["gap"]).as_py(), "bqd/short_rankings": short.mean()}
        figures["bqd/uncertified"] = np.count_nonzero(~(np.asarray(table["gap"]) <= TOLERANCE))
        figures |= {f"vqabq/{name}": value for name, value in selection_figures(scores).items()}
    return {name: float(value) for name, value in figures.items()}
