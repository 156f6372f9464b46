"""What a model answered under noise, question by question: robustness.parquet of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ivqa.data import DataError
from ivqa.errors import UserError
from ivqa.files import written
from ivqa.metrics import PUBLISHED_R_SCORE, RScore, vqa_accuracies
from ivqa.ranking.bqd_files import read_table
from ivqa.robustness.curve import NoiseCurve

RECORDS_FILE = "robustness.parquet"


@dataclass(frozen=True, eq=False)
class NoiseRecords:
    """The answers to N questions at levels 0 (clean), 1, ..., L.

    question_ids: (N,) int64. answer_types: of the N questions. answers: L + 1 lists of N.
    accuracies: (L + 1, N) in [0, 1]. questions: what was asked, as `answers`; None: not known.
    """

    question_ids: NDArray[np.int64]
    answer_types: Sequence[str]
    answers: Sequence[Sequence[str]]
    accuracies: NDArray[np.float64]
    questions: Sequence[Sequence[str]] | None = None

    @classmethod
    def scored(
        cls,
        question_ids: NDArray[np.int64],
        answer_types: Sequence[str],
        answers: Sequence[Sequence[str]],
        human_answers: Sequence[Sequence[str]],
        questions: Sequence[Sequence[str]] | None = None,
    ) -> "NoiseRecords":
        """With the official accuracy of every answer."""
        accuracies = np.stack([vqa_accuracies(level, human_answers) for level in answers])
        return cls(question_ids, answer_types, answers, accuracies.astype(np.float64), questions)

    @classmethod
    def read(cls, run_dir: Path) -> "NoiseRecords":
        """Those of a run directory.

        Raises UserError where it has none, and DataError where they are damaged.
        """
        file = run_dir / RECORDS_FILE
        if not file.is_file():
            raise UserError(
                f"{run_dir} has no {RECORDS_FILE}; evaluate the model with callbacks=robustness, "
                "or its result files with predictions=[clean.json,level_1.json,...]"
            )
        table = read_table(file).to_pandas()
        if fault := _fault(table):
            raise DataError(f"{file} holds no answers under noise: {fault}; evaluate again")
        levels = [rows for _, rows in table.groupby("level", sort=True)]
        known = "question" in levels[0]
        return cls(
            levels[0]["question_id"].to_numpy(),
            levels[0]["answer_type"].tolist(),
            [rows["answer"].tolist() for rows in levels],
            np.stack([rows["accuracy"].to_numpy() for rows in levels]),
            [rows["question"].tolist() for rows in levels] if known else None,
        )

    def write(self, run_dir: Path) -> Path:
        """One row a question and level, whole or not at all; returns the file."""
        levels = [
            pd.DataFrame(
                {
                    "question_id": self.question_ids,
                    "answer_type": self.answer_types,
                    "level": level,
                    **({} if self.questions is None else {"question": self.questions[level]}),
                    "answer": answers,
                    "accuracy": self.accuracies[level],
                }
            )
            for level, answers in enumerate(self.answers)
        ]
        file = run_dir / RECORDS_FILE
        table = pa.Table.from_pandas(pd.concat(levels), preserve_index=False)
        with written(file) as draft:
            pq.write_table(table, draft, compression="zstd", write_page_checksum=True)
        return file

    def select(self, rows: NDArray[np.int64]) -> "NoiseRecords":
        """The questions `rows` (M,), in that order."""
        chosen = rows.tolist()
        questions = self.questions
        return NoiseRecords(
            self.question_ids[rows],
            [self.answer_types[row] for row in chosen],
            [[level[row] for row in chosen] for level in self.answers],
            self.accuracies[:, rows],
            None if questions is None else [[level[row] for row in chosen] for level in questions],
        )

    def curve(self, r_score: RScore = PUBLISHED_R_SCORE) -> NoiseCurve:
        """Accuracy level by level, and what R_score to compute of it."""
        return NoiseCurve(self.accuracies, self.answer_types, r_score)

    def __len__(self) -> int:
        return len(self.question_ids)


def _fault(table: pd.DataFrame) -> str | None:
    """What is wrong with the columns or rows of robustness.parquet."""
    kinds = {"question_id": "i", "answer_type": "O", "level": "i", "answer": "O", "accuracy": "f"}
    for name, kind in kinds.items():
        if name not in table.columns:
            return f"it has no column {name}"
        if table[name].dtype.kind != kind or table[name].isna().any():
            return f"its column {name} has values that are missing or of another kind"
    if not table["accuracy"].between(0, 1).all():
        return "an accuracy is not in [0, 1]"
    asked = [rows["question_id"].tolist() for _, rows in table.groupby("level", sort=True)]
    if sorted(set(table["level"])) != list(range(len(asked))) or not asked:
        return "levels are missing"
    return None if all(ids == asked[0] for ids in asked) else "levels differ in their questions"
