"""The answers of a model to every question at every level of noise: robustness.parquet of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mode
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from ivqa.data import DataError, VQASplit
from ivqa.data.split import AnswerMetric
from ivqa.errors import UserError
from ivqa.metrics import PUBLISHED_R_SCORE, RScore, vqa_accuracies
from ivqa.ranking.bqd_files import read_table, write_table
from ivqa.robustness.curve import NoiseCurve
from ivqa.text.answer_matching import VQA_2018, Accuracy, AnswerRule
from ivqa.vqa.evaluation import answered_rows

RECORDS_FILE = "robustness.parquet"
# Key of the Parquet metadata for `NoiseRecords.accuracy`.
_ACCURACY = b"ivqa.accuracy"


@dataclass(frozen=True, eq=False)
class NoiseRecords:
    """The answers to N questions at levels 0 (without noise), 1, ..., L.

    Args:
        question_ids: Ids (N,), int64.
        image_ids: Ids of the questions' images (N,), int64.
        answer_types: Answer types of the N questions.
        answers: L + 1 lists of N answers.
        accuracies: Accuracies of the answers (L + 1, N) in [0, 1].
        blind: Accuracies of the blind baseline, `_blind_accuracies` (N,), in [0, 1].
        questions: L + 1 lists of the N questions as they were asked; None where unknown.
        cut: Whether the model reads only the beginning of a question, (L + 1, N) bool; None where
            unknown.
        choices: L + 1 lists of the N chosen candidates of multiple-choice questions, "" for none;
            None where the data have no candidates.
        choice_accuracies: Accuracies of `choices`, (L + 1, N) in [0, 1]; NaN for questions without
            candidates.
        accuracy: Which accuracy all of these are, see `AnswerMetric.with_accuracy`.
    """

    question_ids: NDArray[np.int64]
    image_ids: NDArray[np.int64]
    answer_types: Sequence[str]
    answers: Sequence[Sequence[str]]
    accuracies: NDArray[np.float64]
    blind: NDArray[np.float64]
    questions: Sequence[Sequence[str]] | None = None
    cut: NDArray[np.bool_] | None = None
    choices: Sequence[Sequence[str]] | None = None
    choice_accuracies: NDArray[np.float64] | None = None
    accuracy: Accuracy = "official"

    @classmethod
    def scored(
        cls,
        split: VQASplit,
        answers: Sequence[Sequence[str]],
        questions: Sequence[Sequence[str]] | None = None,
        rows: NDArray[np.int64] | None = None,
        *,
        accuracy: Accuracy = "official",
        choices: Sequence[Sequence[str]] | None = None,
        cut: NDArray[np.bool_] | None = None,
    ) -> "NoiseRecords":
        """Computes the accuracy of every answer.

        Args:
            rows: Positions (N,) of the questions in the split; None for all.

        Returns:
            The records, without the questions that the metric of the split does not count, and
            those without an answer at level 0.

        Raises:
            UserError: No question is left.
        """
        metric = split.metric.with_accuracy(accuracy)
        rows = np.arange(len(split)) if rows is None else rows
        # Questions without a clean answer are left out, as from the accuracy. A model that is
        # silent under noise alone is not robust: its answer is wrong.
        counted = np.intersect1d(
            np.flatnonzero(metric.counted(split)[rows]), answered_rows(answers[0])
        )
        if not len(counted):
            raise UserError(f"split '{split.name}' has no question that counts and has an answer")
        types, human = metric.answer_types(split), [split.answers[row] for row in rows]
        kinds, main = [types[row] for row in rows], [split.main_answers[row] for row in rows]
        # (L + 1, N): the human answers to a question are the same at every level.
        accuracies = np.stack([vqa_accuracies(level, human, rule=metric.rule) for level in answers])
        return cls(
            split.question_ids[rows],
            split.image_ids[rows],
            kinds,
            answers,
            accuracies,
            _blind_accuracies(kinds, main, human, metric.rule),
            questions,
            cut,
            choices,
            None if choices is None else _choice_accuracies(metric, split.select(rows), choices),
            accuracy,
        ).select(counted)

    @classmethod
    def read(cls, run_dir: Path) -> "NoiseRecords":
        """Reads the records of a run.

        Raises:
            UserError: The run has no robustness.parquet.
            DataError: The file is damaged.
        """
        file = run_dir / RECORDS_FILE
        if not file.is_file():
            raise UserError(
                f"{run_dir} has no {RECORDS_FILE}; evaluate the model with callbacks=robustness, "
                "or its result files with predictions=[clean.json,level_1.json,...]"
            )
        stored = read_table(file)
        table = stored.to_pandas()
        if fault := _fault(table):
            raise DataError(f"{file} does not hold answers under noise: {fault}; evaluate again")
        # `_fault` has checked that all levels hold the same questions in the same order.
        levels = [rows for _, rows in table.groupby("level")]

        def column(name: str) -> list[Any] | None:
            """The values of each level; None in files without this column."""
            # The result files of other systems have no questions, for example.
            return [rows[name].tolist() for rows in levels] if name in levels[0] else None

        cut, right = column("truncated"), column("choice_accuracy")
        accuracy = (stored.schema.metadata or {}).get(_ACCURACY, b"official").decode()
        return cls(
            levels[0]["question_id"].to_numpy(),
            levels[0]["image_id"].to_numpy(),
            levels[0]["answer_type"].tolist(),
            [rows["answer"].tolist() for rows in levels],
            np.stack([rows["accuracy"].to_numpy() for rows in levels]),
            levels[0]["blind_accuracy"].to_numpy(),
            column("question"),
            None if cut is None else np.array(cut),
            column("choice"),
            None if right is None else np.array(right),
            cast(Accuracy, accuracy),
        )

    def write(self, run_dir: Path) -> Path:
        """Writes the records, one row for each level and question; the write is atomic."""
        optional: dict[str, Any] = {
            "question": self.questions,
            "truncated": self.cut,
            "choice": self.choices,
            "choice_accuracy": self.choice_accuracies,
        }
        levels = [
            pd.DataFrame(
                {
                    "question_id": self.question_ids,
                    "image_id": self.image_ids,
                    "answer_type": self.answer_types,
                    "level": level,
                    **{name: held[level] for name, held in optional.items() if held is not None},
                    "answer": answers,
                    "accuracy": self.accuracies[level],
                    "blind_accuracy": self.blind,
                }
            )
            for level, answers in enumerate(self.answers)
        ]
        file = run_dir / RECORDS_FILE
        table = pa.Table.from_pandas(pd.concat(levels), preserve_index=False)
        metadata = {**(table.schema.metadata or {}), _ACCURACY: self.accuracy}
        write_table(file, table.replace_schema_metadata(metadata))
        return file

    def select(self, rows: NDArray[np.int64]) -> "NoiseRecords":
        """The records of the questions at `rows`, (M,), in that order."""
        wanted = rows.tolist()

        def texts(levels: Sequence[Sequence[str]]) -> list[list[str]]:
            return [[level[row] for row in wanted] for level in levels]

        right = self.choice_accuracies
        return replace(
            self,
            question_ids=self.question_ids[rows],
            image_ids=self.image_ids[rows],
            answer_types=[self.answer_types[row] for row in wanted],
            answers=texts(self.answers),
            accuracies=self.accuracies[:, rows],
            blind=self.blind[rows],
            questions=None if self.questions is None else texts(self.questions),
            cut=None if self.cut is None else self.cut[:, rows],
            choices=None if self.choices is None else texts(self.choices),
            choice_accuracies=None if right is None else right[:, rows],
        )

    def curve(self, r_score: RScore = PUBLISHED_R_SCORE) -> NoiseCurve:
        """The accuracy at every level.

        Raises:
            UserError: The records have another accuracy than r_score.accuracy.
        """
        if self.accuracy != r_score.accuracy:
            raise UserError(
                f"the answers under noise were scored with r_score.accuracy={self.accuracy}, not "
                f"{r_score.accuracy}; pass r_score.accuracy={self.accuracy}, or evaluate again"
            )
        return NoiseCurve(
            self.accuracies,
            self.answer_types,
            r_score,
            self.answers,
            images=self.image_ids,
            blind=self.blind,
            cut=self.cut,
            choices=self.choice_accuracies,
        )

    def __len__(self) -> int:
        return len(self.question_ids)


def _blind_accuracies(
    answer_types: Sequence[str],
    main_answers: Sequence[str],
    human_answers: Sequence[Sequence[str]],
    rule: AnswerRule = VQA_2018,
) -> NDArray[np.float64]:
    """The accuracies (N,) of a blind baseline: the majority answer of each answer type.

    The majority answers are those of the N questions themselves, so that no other data is needed.

    >>> humans = [["yes"], ["no"], ["yes"], ["2"]]
    >>> main = [answers[0] for answers in humans]
    >>> _blind_accuracies(["yes/no"] * 3 + ["number"], main, humans).tolist()
    [1.0, 0.0, 1.0, 1.0]
    """
    by_type: dict[str, list[str]] = {}
    for kind, answer in zip(answer_types, main_answers, strict=True):
        by_type.setdefault(kind, []).append(answer)
    majority = {kind: mode(answers) for kind, answers in by_type.items()}
    guesses = [majority[kind] for kind in answer_types]
    return vqa_accuracies(guesses, human_answers, rule=rule)


def _choice_accuracies(
    metric: AnswerMetric, split: VQASplit, choices: Sequence[Sequence[str]]
) -> NDArray[np.float64]:
    """The accuracies (L + 1, N) of chosen candidates; NaN for questions without candidates."""
    asked = [bool(candidates) for candidates in split.multiple_choices or ()]
    right = np.stack([metric.choice_accuracies(split, level) for level in choices])
    return np.where(asked, right, np.nan)


def _fault(table: pd.DataFrame) -> str | None:
    """The first fault in the columns or rows of robustness.parquet; None without a fault."""
    # NumPy's kinds of types: integers, objects (text) and floating-point numbers.
    kinds = {"question_id": "i", "image_id": "i", "answer_type": "O", "level": "i"}
    kinds |= {"answer": "O", "accuracy": "f", "blind_accuracy": "f"}
    for name, kind in kinds.items():
        if name not in table.columns:
            return f"it has no column {name}"
        if table[name].dtype.kind != kind or table[name].isna().any():
            return f"its column {name} has values that are missing or of another kind"
    for name, kind in {"truncated": "b", "choice": "O", "choice_accuracy": "f"}.items():
        if name in table.columns and table[name].dtype.kind != kind:
            return f"its column {name} has values of another kind"
    shares = table.filter(["accuracy", "blind_accuracy", "choice_accuracy"])
    if not shares.stack().dropna().between(0, 1).all():
        return "an accuracy is not in [0, 1]"
    asked = [rows["question_id"].tolist() for _, rows in table.groupby("level")]
    if sorted(set(table["level"])) != list(range(len(asked))) or not asked:
        return "levels are missing"
    return None if all(ids == asked[0] for ids in asked) else "levels differ in their questions"
