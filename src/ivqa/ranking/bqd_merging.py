"""Merges the files of all shards into one basic question dataset."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ivqa.data import DataError
from ivqa.data.validation import listed
from ivqa.ranking.bqd_files import read_parquet
from ivqa.store.identity import differences


def merge_shards(files: Sequence[Path]) -> tuple[pa.Table, dict[str, Any]]:
    """Merges the files of all shards into the table and origin that a single process would write.

    The files may be in any order; the table is ordered by question id.

    Raises:
        DataError: A file is damaged, has other settings than the first, or repeats questions of
            another file, or a shard is missing.
    """
    if not files:
        raise DataError("there are no shards to merge")
    tables, origins = zip(*(read_parquet(file) for file in files), strict=True)
    for file, origin in zip(files, origins, strict=True):
        _check_same(file, origin, files[0], origins[0])
    _check_no_overlap(files, tables)
    number = origins[0]["num_shards"]
    if missing := sorted(set(range(number)) - {origin["shard"] for origin in origins}):
        raise DataError(
            f"shard {listed([str(shard) for shard in missing])} of {number} is missing beside "
            f"{files[0]}; run the same command with shard={','.join(map(str, missing))}"
        )
    merged = pa.concat_tables(tables).sort_by("question_id")
    expected = origins[0]["main_questions"]
    if len(merged) != expected:
        raise DataError(
            f"the {number} shards beside {files[0]} hold {len(merged)} main questions of "
            f"{expected}; run them again"
        )
    return merged, {**origins[0], "shard": 0, "num_shards": 1}


def _check_same(
    file: Path, origin: Mapping[str, Any], first: Path, expected: Mapping[str, Any]
) -> None:
    """Raises DataError unless a file is a shard with the settings of the first."""
    if "shard" not in origin:
        raise DataError(f"{file} is not a shard of a basic question dataset written by task=rank")
    # Shards differ in their number only.
    others = differences({**expected, "shard": 0}, {**origin, "shard": 0})
    if others:
        raise DataError(
            f"{file} has other settings than {first} ({others[0]}); merge shards of one "
            "configuration"
        )


def _check_no_overlap(files: Sequence[Path], tables: Sequence[pa.Table]) -> None:
    """Raises DataError where two files have rankings of the same question."""
    owner = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    ids = np.concatenate([table["question_id"].to_numpy() for table in tables])
    # Sorted, equal ids are neighbours.
    order = np.argsort(ids, kind="stable")
    again = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if len(again):
        one, other = (files[owner[order[again[0] + step]]] for step in (0, 1))
        raise DataError(
            f"{len(again)} question ids occur twice, such as {ids[order[again[0]]]} in {one} and "
            f"in {other}; merge each shard once"
        )
