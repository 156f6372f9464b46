"""Records of the answers under noise: what they score, and robustness.parquet."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from ivqa.data import DataError, VQASplit
from ivqa.data.split import ExactMatch
from ivqa.errors import UserError
from ivqa.metrics import RScore
from ivqa.robustness.records import NoiseRecords


class _Official(ExactMatch):
    """An evaluation that compares capitals, leaves out question 14, and has types of its own."""

    def counted(self, split: VQASplit) -> NDArray[np.bool_]:
        return split.question_ids != 14

    def answer_types(self, split: VQASplit) -> list[str]:
        return ["b" if number == 13 else "a" for number in split.question_ids]


SPLIT = VQASplit(
    "val",
    np.array([11, 12, 13, 14, 15]),
    np.array([1, 1, 2, 2, 3]),
    ["Red?", "Big?", "How many?", "Blue?", "Old?"],
    [["Yes"], ["yes"], ["2"], ["no"], ["yes"]],
    ["Yes", "yes", "2", "no", "yes"],
    ["other"] * 5,
    ["is"] * 5,
    metric=_Official(),
)


def test_answers_are_scored_by_the_evaluation_of_the_data_set() -> None:
    rows = np.array([4, 3, 2, 0, 1])
    # Question 13 has no clean answer; the silence under noise at question 11 is a wrong answer.
    answers = [["yes", "no", "", "yes", "yes"], ["no", "no", "2", "", "yes"]]
    asked = [[f"{SPLIT.questions[row]} {level}" for row in rows] for level in range(2)]
    records = NoiseRecords.scored(SPLIT, answers, asked, rows)
    assert len(records) == 3
    assert records.question_ids.tolist() == [15, 11, 12]
    assert records.image_ids.tolist() == [3, 1, 1]
    assert records.answer_types == ["a"] * 3
    assert records.answers == [["yes", "yes", "yes"], ["no", "", "yes"]]
    assert records.questions == [["Old? 0", "Red? 0", "Big? 0"], ["Old? 1", "Red? 1", "Big? 1"]]
    # "yes" is not "Yes", and the majority of type "a" is "yes".
    assert records.accuracies.tolist() == [[1, 0, 1], [0, 0, 1]]
    assert records.blind.tolist() == [1, 0, 1]


def test_all_questions_of_a_split_are_scored_by_default() -> None:
    records = NoiseRecords.scored(SPLIT, [["Yes", "no", "2", "no", "yes"]])
    assert records.question_ids.tolist() == [11, 12, 13, 15]
    assert records.accuracies.tolist() == [[1, 0, 1, 1]]
    assert records.answer_types == ["a", "a", "b", "a"]
    assert records.questions is None
    with pytest.raises(UserError, match="split 'val' has no question that counts"):
        NoiseRecords.scored(SPLIT, [["", " ", "", "no", ""]])


def test_the_curve_has_the_figures_of_all_columns() -> None:
    records = NoiseRecords(
        np.arange(4),
        np.array([7, 7, 8, 8]),
        ["yes/no", "yes/no", "other", "other"],
        [["a"] * 4, ["a", "a", "a", "b"]],
        np.array([[1.0, 1.0, 0.0, 0.0], [0.75, 0.75, 0.0, 0.0]]),
        np.array([1.0, 0.0, 0.0, 0.0]),
    )
    figures = records.curve(RScore(tolerance=0.0, limit=0.5)).metrics()
    assert figures["partition_0/accuracy"] == 0.5
    assert figures["partition_0/yes_no"] == 1
    assert figures["partition_1/flips"] == 0.25
    assert figures["blind_accuracy"] == 0.25
    assert figures["r_score"] == pytest.approx((0.5**0.5 - 0.125**0.5) / 0.5**0.5)
    # R_score as published, with tolerance 0.0005 and limit 0.2.
    published = (0.2**0.5 - 0.125**0.5) / (0.2**0.5 - 5e-4**0.5)
    assert records.curve().metrics()["r_score"] == pytest.approx(published)


def test_the_intervals_of_the_curve_draw_whole_images() -> None:
    """Both draws of two images are the first one in a quarter of the resamples."""
    right = np.repeat([1.0, 0.0], 20)
    records = NoiseRecords(
        np.arange(40), np.repeat([7, 8], 20), ["other"] * 40, [["a"] * 40], right[None], right
    )
    figures = records.curve().metrics()
    assert (figures["partition_0/accuracy_low"], figures["partition_0/accuracy_high"]) == (0, 1)


def _written(folder: Path, *, questions: bool = False) -> pd.DataFrame:
    """Writes the answers to two questions at three levels; returns the table of the file."""
    records = NoiseRecords(
        np.array([1, 2]),
        np.array([5, 6]),
        ["number", "other"],
        [["a", "b"], ["c", "d"], ["e", "f"]],
        np.array([[1.0, 0.0], [0.25, 1.0], [0.5, 0.75]]),
        np.array([0.0, 1.0]),
        [["q", "r"], ["s", "t"], ["u", "v"]] if questions else None,
    )
    file = records.write(folder)
    assert file == folder / "robustness.parquet"
    return pd.read_parquet(file)


def test_a_file_has_a_row_for_each_level_and_question(tmp_path: Path) -> None:
    """Levels of a file may stand in any order."""
    assert "question" not in _written(tmp_path)
    assert NoiseRecords.read(tmp_path).questions is None
    table = _written(tmp_path, questions=True)
    assert pq.read_table(tmp_path / "robustness.parquet").to_pydict() == {
        "question_id": [1, 2] * 3,
        "image_id": [5, 6] * 3,
        "answer_type": ["number", "other"] * 3,
        "level": [0, 0, 1, 1, 2, 2],
        "question": ["q", "r", "s", "t", "u", "v"],
        "answer": ["a", "b", "c", "d", "e", "f"],
        "accuracy": [1.0, 0.0, 0.25, 1.0, 0.5, 0.75],
        "blind_accuracy": [0.0, 1.0] * 3,
    }
    table.iloc[[4, 5, 0, 1, 2, 3]].to_parquet(tmp_path / "robustness.parquet")
    read = NoiseRecords.read(tmp_path)
    assert read.answers == [["a", "b"], ["c", "d"], ["e", "f"]]
    assert read.accuracies.tolist() == [[1.0, 0.0], [0.25, 1.0], [0.5, 0.75]]
    table[:2].to_parquet(tmp_path / "robustness.parquet")  # without noise alone
    read = NoiseRecords.read(tmp_path)
    assert (read.question_ids.tolist(), read.image_ids.tolist()) == ([1, 2], [5, 6])
    assert (read.answer_types, read.blind.tolist()) == (["number", "other"], [0.0, 1.0])
    assert (read.answers, read.questions) == ([["a", "b"]], [["q", "r"]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="blind_accuracy"), "it has no column blind_accuracy"),
        (lambda t: t.drop(columns="question_id"), "it has no column question_id"),
        (lambda t: t.assign(answer_type=1), "its column answer_type has values"),
        (lambda t: t.assign(accuracy=1), "its column accuracy has values .* of another kind"),
        (lambda t: t.assign(image_id=t["image_id"] / 2), "its column image_id has values"),
        (lambda t: t.assign(answer=[*"abcde", None]), "its column answer has values .* missing"),
        (lambda t: t.assign(accuracy=[1, 1, 1, 1, 1, 1.5]), r"an accuracy is not in \[0, 1\]"),
        (lambda t: t.assign(blind_accuracy=[0, 0, 0, 0, 0, -0.1]), "an accuracy is not in"),
        (lambda t: t[t["level"] != 1], "levels are missing"),
        (lambda t: t[t["level"] != 0], "levels are missing"),
        (lambda t: t[:0], "levels are missing"),
        (lambda t: t[:-1], "levels differ in their questions"),
        (lambda t: t.assign(question_id=[1, 2, 1, 2, 2, 1]), "levels differ in their questions"),
    ],
)
def test_a_file_of_other_rows_or_columns_is_refused(
    change: Callable[[pd.DataFrame], pd.DataFrame], message: str, tmp_path: Path
) -> None:
    change(_written(tmp_path)).to_parquet(tmp_path / "robustness.parquet")
    with pytest.raises(DataError, match=f"does not hold answers under noise: {message}"):
        NoiseRecords.read(tmp_path)
