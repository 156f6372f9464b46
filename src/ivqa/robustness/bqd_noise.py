"""Basic questions from the file of a basic question dataset (BQD), such as a published one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ivqa.data import DataError
from ivqa.ranges import Count, ExistingFile
from ivqa.ranking import read_bqd, scores_of
from ivqa.robustness.noise import partitions
from ivqa.text.tokens import tokenise


@dataclass(frozen=True)
class BQDNoise:
    """A question followed by basic questions as a file ranks them [ROB 4].

    path: Parquet as task=rank writes it, or JSON records {image, MQ, k x (BQ, score)}; main
    questions are found by their words. levels: partitions. a_level: basic questions of one.
    """

    path: ExistingFile
    levels: Count = 7
    a_level: Count = 3

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        """Plain concatenation of each question and its partition; `training` is not needed.

        Raises DataError where a question is not in the file or has too few basic questions.
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
        """Raises DataError as `disturbed`."""
        self.disturbed(questions, training)

    def ranked(
        self, questions: Sequence[str], training: Sequence[str]
    ) -> tuple[list[list[str]], NDArray[np.float32]]:
        """Basic questions of N main questions, best first, and their scores (N, k).

        Raises DataError where a question is not in the file.
        """
        keys = [tuple(tokenise(question)) for question in questions]
        absent = [text for text, key in zip(questions, keys, strict=True) if key not in self._rows]
        if absent:
            raise DataError(
                f"{self.path} has no basic questions for {len(absent)} of {len(questions)} "
                f"questions, such as '{absent[0]}'; rank that split with task=rank"
            )
        rows, place = np.unique([self._rows[key] for key in keys], return_inverse=True)
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
