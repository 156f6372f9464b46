"""Noise from the file of a basic question dataset (BQD), for example a published one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ivqa.data import DataError
from ivqa.ranges import Count, ExistingFile
from ivqa.ranking.bqd_files import read_bqd, scores_of
from ivqa.robustness.basic_questions import partitions
from ivqa.text.tokens import tokenise


@dataclass(frozen=True)
class BQDNoise:
    """Appends basic questions to a question, in the order of a file [ROB 4].

    Main questions are looked up by their words, without regard to case and punctuation.

    Args:
        path: Parquet file of task=rank, or JSON records {image, MQ, k x (BQ, score)}.
        levels: Number of levels (partitions).
        a_level: Number of basic questions of each level.
    """

    path: ExistingFile
    levels: Count = 7
    a_level: Count = 3

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Concatenates each question with the basic questions of each level; see `Noise`.

        Raises:
            DataError: A question is not in the file or has too few basic questions there.
        """
        ranked, _ = self.ranked(questions, training)
        needed = self.levels * self.a_level
        shortest = min(map(len, ranked), default=needed)
        if shortest < needed:
            raise DataError(
                f"{self.path} holds {shortest} basic questions of a main question, but "
                f"{self.levels} levels of {self.a_level} need {needed}; choose fewer noise.levels"
            )
        return partitions(questions, ranked, self.levels, self.a_level)

    def check(self, questions: Sequence[str], training: Sequence[str]) -> None:
        """Checks that the file has enough basic questions for every question."""
        self.disturbed(questions, training)

    def ranked(
        self, questions: Sequence[str], training: Sequence[str]
    ) -> tuple[list[list[str]], NDArray[np.float32]]:
        """Looks up basic questions; see `RankedBasicQuestions.ranked`.

        Raises:
            DataError: A question is not in the file.
        """
        keys = [tuple(tokenise(question)) for question in questions]
        absent = [text for text, key in zip(questions, keys, strict=True) if key not in self._rows]
        if absent:
            raise DataError(
                f"{self.path} has no basic questions for {len(absent)} of {len(questions)} "
                f"questions, such as '{absent[0]}'; rank that split with task=rank"
            )
        # Each row is read once: many questions of a split are asked about several images.
        wanted = np.array([self._rows[key] for key in keys], dtype=np.int64)
        rows, place = np.unique(wanted, return_inverse=True)
        found = self._table.take(rows)
        texts = found["basic_questions"].to_pylist()
        return [texts[at] for at in place], scores_of(found)[place]

    @cached_property
    def _table(self) -> pa.Table:
        return read_bqd(Path(self.path))

    @cached_property
    def _rows(self) -> dict[tuple[str, ...], int]:
        """The first row of each main question, by its words."""
        rows: dict[tuple[str, ...], int] = {}
        for row, question in enumerate(self._table["question"].to_pylist()):
            rows.setdefault(tuple(tokenise(question)), row)
        return rows
