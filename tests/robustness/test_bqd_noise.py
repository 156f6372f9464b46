"""Noise from files of basic questions, and the selection of helpful basic questions (VQABQ)."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from ivqa.data import DataError
from ivqa.ranking import RandomRanker
from ivqa.ranking.bqd_files import write_parquet
from ivqa.robustness import VQABQ, BasicQuestionNoise, BQDNoise
from ivqa.robustness.vqabq import helpful_counts, selection_figures

POOL = [f"What is number {number}?" for number in range(30)]


def _records(path: Path, *, questions: Sequence[str], k: int) -> str:
    records = [
        {"image": 1, "MQ": text, "BQ": [[f"{text} {rank}", 1 / (rank + 1)] for rank in range(k)]}
        for text in questions
    ]
    path.write_text(json.dumps(records))
    return str(path)


def test_a_file_gives_the_noise_of_the_ranker_that_wrote_it(tmp_path: Path) -> None:
    questions = ["Is it red?", "Why?", "Is it red?"]
    made = BasicQuestionNoise(RandomRanker())
    ranked, scores = made.ranked(questions, POOL)
    table = pa.table({"question": questions, "basic_questions": ranked, "scores": scores.tolist()})
    write_parquet(tmp_path / "bqd.parquet", table, {})
    stored = BQDNoise(str(tmp_path / "bqd.parquet"))
    assert stored.disturbed(questions[::-1], []) == [
        level[::-1] for level in made.disturbed(questions, POOL)
    ]


def test_main_questions_are_found_by_their_words(tmp_path: Path) -> None:
    path = _records(tmp_path / "bqd.json", questions=["is it red ?"], k=4)
    (level,) = BQDNoise(path, levels=1, a_level=2).disturbed(["Is it red?"], [])
    assert level == ["Is it red? is it red ? 0 is it red ? 1"]


def test_the_first_ranking_of_a_question_counts(tmp_path: Path) -> None:
    path = tmp_path / "bqd.json"
    asked = [("Is it red?", "a", 0.5), ("Why?", "b", 0.25), ("is it red", "c", 1)]
    path.write_text(json.dumps([{"MQ": text, "BQ": [pair]} for text, *pair in asked]))
    texts, scores = BQDNoise(str(path)).ranked(["Why?", "Is it red?", "why"], [])
    assert texts == [["b"], ["a"], ["b"]]
    assert scores.tolist() == [[0.25], [0.5], [0.25]]


def test_the_default_is_seven_levels_of_three(tmp_path: Path) -> None:
    noise = BQDNoise(_records(tmp_path / "bqd.json", questions=["Why?"], k=21))
    noise.check(["Why?"], [])
    levels = noise.disturbed(["Why?"], [])
    assert len(levels) == 7
    assert levels[6] == ["Why? Why? 18 Why? 19 Why? 20"]
    assert noise.disturbed([], []) == [[]] * 7


def test_the_message_names_what_a_file_lacks(tmp_path: Path) -> None:
    path = _records(tmp_path / "bqd.json", questions=["Is it red?"], k=20)
    message = r"bqd.json has no basic questions for 2 of 3 questions, such as 'Why\?'"
    with pytest.raises(DataError, match=message):
        BQDNoise(path).disturbed(["Why?", "Is it red?", "How?"], [])
    with pytest.raises(DataError, match=message):
        BQDNoise(path).check(["Why?", "Is it red?", "How?"], [])
    with pytest.raises(DataError, match=r"holds 20 basic questions .* 7 levels of 3 need 21"):
        BQDNoise(path).disturbed(["Is it red?"], [])
    with pytest.raises(DataError, match=r"nowhere.parquet: file not found"):
        BQDNoise(str(tmp_path / "nowhere.parquet")).disturbed(["Is it red?"], [])


@pytest.mark.parametrize(
    ("scores", "count"),
    [
        ([0.60, 0.60, 0.60], 0),  # the score must be above s1, not equal
        ([0.61, 0.35, 0.35], 1),  # 0.35 / 0.61 = 0.574
        ([0.61, 0.36, 0.14], 2),  # 0.590, then 0.389
        ([0.61, 0.36, 0.15], 3),  # 0.590, then 0.417
        ([0.61, 0.10, 0.10], 1),  # the third never helps without the second
        ([0.00, 0.00, 0.00], 0),
        ([0.90, 0.00, 0.00], 1),
        ([0.90, 0.80], 2),  # there is no third
    ],
)
def test_thresholds_of_helpful_questions(scores: list[float], count: int) -> None:
    assert helpful_counts(np.array([scores])).tolist() == [count]


def test_limits_of_the_thresholds() -> None:
    scores = np.sort(np.random.default_rng(0).random((50, 5)), axis=1)[:, ::-1]
    assert (helpful_counts(scores, (0, 0, 0)) == 3).all()
    assert (helpful_counts(scores, (1, 0, 0)) == 0).all()
    figures = selection_figures(scores)
    assert sum(figures[f"helpful_{count}"] for count in range(4)) == pytest.approx(1)
    assert figures["score2_over_score1"] == pytest.approx((scores[:, 1] / scores[:, 0]).mean())
    with pytest.raises(ValueError, match="main question 3 are not finite"):
        helpful_counts(np.where(np.arange(50)[:, None] == 3, np.nan, scores))
    with pytest.raises(ValueError, match="three thresholds"):
        helpful_counts(scores, (0.5,))


def test_helpful_questions_follow_the_main_question() -> None:
    class Source:
        def ranked(
            self, questions: Sequence[str], training: Sequence[str]
        ) -> tuple[list[list[str]], NDArray[np.float32]]:
            assert (questions, training) == (["One?", "Two?"], ["A?", "D?"])
            scores = np.array([[0.2, 0.2, 0.2], [0.7, 0.6, 0.1]], dtype=np.float32)
            return [["A?", "B?", "C?"], ["D?", "E?", "F?"]], scores

    asked = (["One?", "Two?"], ["A?", "D?"])
    noise = VQABQ(Source())
    assert noise.disturbed(*asked) == [["One?", "Two? D? E?"]]
    assert noise.levels == 1
    figures = noise.figures(*asked)
    assert [figures[f"helpful_{count}"] for count in range(4)] == [0.5, 0, 0.5, 0]
    assert "helpful_4" not in figures
    other = VQABQ(Source(), thresholds=(0.1, 0.9, 0.9))  # 0.6 / 0.7 = 0.857
    assert other.disturbed(*asked) == [["One? A? B? C?", "Two? D?"]]
    assert [other.figures(*asked)[f"helpful_{count}"] for count in range(4)] == [0, 0.5, 0, 0.5]


def test_ratios_are_over_questions_whose_divisor_is_positive() -> None:
    """0 / 0 is neither a mean of 0 nor a warning."""
    scores = np.array([[0.8, 0.4, 0.2], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0], [0.8, 0.6, 0.0]])
    with np.errstate(all="raise"):
        figures = selection_figures(scores, (0.3, 0.4, 0.4))
        nothing = selection_figures(np.zeros((2, 3)))
    ratios = {"score1": [0.8, 0.5, 0, 0.8], "score2_over_score1": [0.5, 0, 0.75]}
    for name, values in {**ratios, "score3_over_score2": [0.5, 0.0]}.items():
        assert figures[name] == pytest.approx(np.mean(values))
        assert figures[f"{name}_std"] == pytest.approx(np.std(values))
    assert [figures[f"helpful_{n}"] for n in range(4)] == [0.25, 0.25, 0.25, 0.25]
    assert (nothing["score1"], nothing["helpful_0"]) == (0, 1)
    assert not [name for name in nothing if "over" in name]
