"""Consistency in the results of tasks: a table in the terminal and a page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from ivqa.consistency import read_images
from ivqa.data import VQASplit
from ivqa.report import (
    consistency_rows,
    consistency_sentences,
    print_table,
    title_of,
    write_consistency_page,
)


def show_consistency(
    metrics: Mapping[str, float], name: str, run_dir: Path, split: VQASplit, console: Console
) -> dict[str, Any]:
    """Shows the figures of consistency, if `metrics` have them, and writes consistency.html.

    Returns:
        Page and table as media for `log_results`; empty without the figures.
    """
    if "consistency/questions" not in metrics:
        return {}
    page, rows = run_dir / "consistency.html", consistency_rows(metrics)
    if rows:
        print_table(rows, title="answers that follow from other answers", console=console)
    for sentence in consistency_sentences(metrics, title_of(name)):
        console.print(sentence, soft_wrap=True)
    title = f"Answers of {title_of(name)} that cannot all be true"
    write_consistency_page(page, title, title_of(name), read_images(run_dir), metrics, split)
    console.print(f"contradictions: {page}", soft_wrap=True)
    return {"consistency": page, "consistency_table": pd.DataFrame(rows)}
