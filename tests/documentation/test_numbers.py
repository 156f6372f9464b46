"""The numbers of README's table of results are those of docs/results.json."""

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]

# Start of a row of the table; experiment, setting and metric; format; the number in the row.
CLAIMS = [
    ("inverse VQA", "table1", "ivqa_attention", "best/consistent", ".1%", "89.5"),
    ("inverse VQA", "table1", "ivqa_nearest_neighbour", "best/consistent", ".1%", "70.7"),
    ("inverse VQA", "table1", "ivqa_vae", "best/consistent", ".1%", "66.6"),
    ("diagnosis", "rewards", "full", "rl/per_pair", ".1f", "39.3"),
    ("diagnosis", "rewards", "full", "supervised/per_pair", ".1f", "30.9"),
    ("repair", "repair", "mlb", "before/wrong_rate", ".1%", "45.4"),
    ("repair", "repair", "mlb", "repaired/wrong_rate", ".1%", "20.9"),
    ("repair", "repair", "mlb", "ordinary/wrong_rate", ".1%", "37.9"),
    ("|", "repair", "mlb", "before/accuracy", ".1%", "80.3"),
    ("|", "repair", "mlb", "repaired/accuracy", ".1%", "80.8"),
    ("|", "repair", "mlb", "ordinary/accuracy", ".1%", "86.8"),
    ("robustness", "gbqd", "mlb", "robustness/partition_0/accuracy", ".1%", "81.1"),
    ("robustness", "gbqd", "mlb", "robustness/partition_1/accuracy", ".1%", "58.8"),
    ("robustness", "gbqd", "mlb", "robustness/partition_7/accuracy", ".1%", "44.8"),
]


@pytest.mark.parametrize(("row", "experiment", "setting", "metric", "style", "shown"), CLAIMS)
def test_readme_shows_what_was_measured(
    row: str, experiment: str, setting: str, metric: str, style: str, shown: str
) -> None:
    records = json.loads((ROOT / "docs" / "results.json").read_text())
    seeds = records[experiment]["settings"][setting]
    measured = float(np.mean([seed[metric] for seed in seeds]))
    assert format(measured, style).removesuffix("%") == shown
    table = (ROOT / "README.md").read_text().partition("## Results")[2].partition("\n## ")[0]
    rows = [line[2:] for line in table.splitlines() if line.startswith(f"| {row}")]
    assert len(rows) == 1
    assert shown in rows[0].replace(",", " ").replace(";", " ").split()
