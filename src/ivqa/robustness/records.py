"""What a model answered under noise, question by question: robustness.parquet of a run."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ivqa.errors import UserError
from ivqa.metrics import vqa_accuracies
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
        """Those of a run directory. Raises UserError where it has none."""
        file = run_dir / RECORDS_FILE
        if not file.is_file():
            raise UserError(
                f"{run_dir} has no {RECORDS_FILE}; evaluate the model with callbacks=robustness, "
                "or its result files with predictions=[clean.json,level_1.json,...]"
            )
        levels = [rows for _, rows in pd.read_parquet(file).groupby("level", sort=True)]
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
        run_dir.mkdir(parents=True, exist_ok=True)
        draft = run_dir / f".{RECORDS_FILE}.{os.getpid()}"
        pd.concat(levels).to_parquet(draft, index=False, compression="zstd")
        return draft.replace(run_dir / RECORDS_FILE)

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

    @property
    def curve(self) -> NoiseCurve:
        """Accuracy level by level."""
        return NoiseCurve(self.accuracies, self.answer_types)

    def __len__(self) -> int:
        return len(self.question_ids)
