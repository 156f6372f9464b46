"""The comparison of two models under noise."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ivqa.errors import UserError
from ivqa.metrics import RScore, interval, mcnemar, r_score, resampled_means
from ivqa.robustness.comparison import common_questions, paired_differences
from ivqa.robustness.records import NoiseRecords


def _records(share: float, seed: int, ids: range = range(600), levels: int = 3) -> NoiseRecords:
    """Answers whose accuracy falls from `share` by a tenth of it per level."""
    rng = np.random.default_rng(seed)
    draws = rng.random(len(ids))
    keep = share * (1 - 0.1 * np.arange(levels))
    accuracies = (draws < keep[:, None]).astype(float)
    answers = [["yes" if right else "no" for right in level] for level in accuracies]
    questions = [[f"Is it {i}, {level}?" for i in ids] for level in range(levels)]
    # Each question has an image of its own.
    return NoiseRecords(
        np.array(ids),
        np.array(ids),
        ["yes/no"] * len(ids),
        answers,
        accuracies,
        np.full(len(ids), 0.5),
        questions,
    )


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    records = _records(0.8, 0, range(9, -1, -1))
    read = NoiseRecords.read(records.write(tmp_path / "run").parent)
    assert read.question_ids.tolist() == list(range(9, -1, -1))
    assert read.answers == records.answers
    assert read.questions == records.questions
    assert read.answer_types == records.answer_types
    np.testing.assert_array_equal(read.accuracies, records.accuracies)
    np.testing.assert_array_equal(read.image_ids, records.image_ids)
    np.testing.assert_array_equal(read.blind, records.blind)
    with pytest.raises(UserError, match=r"has no robustness\.parquet; evaluate the model"):
        NoiseRecords.read(tmp_path)


def test_a_run_does_not_differ_from_itself() -> None:
    figures = paired_differences(_records(0.8, 0), _records(0.8, 0))
    assert figures.pop("questions") == 600
    for name, value in figures.items():
        assert value == (1.0 if name.endswith("p_value") else 0.0), name


def test_differences_are_those_of_the_curves_and_swap_sign_with_the_runs() -> None:
    first, second = _records(0.6, 1), _records(0.9, 2)
    there, back = paired_differences(first, second), paired_differences(second, first)
    for level in range(3):
        name = f"partition_{level}/accuracy_difference"
        means = [records.accuracies[level].mean() for records in (first, second)]
        assert there[name] == pytest.approx(means[1] - means[0])
        assert there[f"{name}_low"] < there[name] < there[f"{name}_high"]
        assert back[f"{name}_low"] == pytest.approx(-there[f"{name}_high"])
        p_value = mcnemar(first.accuracies[level] == 1, second.accuracies[level] == 1).p_value
        assert there[f"partition_{level}/p_value"] == p_value == back[f"partition_{level}/p_value"]
    assert there["partition_0/p_value"] < 1e-6
    scores = [r_score(*records.accuracies[:2].mean(axis=1)) for records in (first, second)]
    assert there["r_score_difference_1"] == pytest.approx(scores[1] - scores[0])
    assert "r_score_difference_0" not in there


def test_answers_that_only_one_model_has_right_are_counted() -> None:
    """An answer is right if its accuracy is at least 0.5, which two of ten annotators give."""
    accuracies = [[1.0, 0.6, 0.5, 0.3, 0.0, 1.0, 0.9], [0.3, 0.5, 0.3, 0.0, 0.6, 0.0, 1.0]]
    first, second = (
        NoiseRecords(
            np.arange(7), np.arange(7), ["other"] * 7, [["a"] * 7], np.array([row]), np.zeros(7)
        )
        for row in accuracies
    )
    figures = paired_differences(first, second)
    assert figures["partition_0/only_first"] == 3  # questions 0, 2 and 5
    assert figures["partition_0/only_second"] == 1  # question 4
    # The mid-p value of 1 among 4: 2 P(X < 1) + P(X = 1), where X is binomial(4, 0.5).
    assert figures["partition_0/p_value"] == pytest.approx((2 * 1 + 4) / 16)
    difference = sum(accuracies[1]) / 7 - sum(accuracies[0]) / 7
    assert figures["partition_0/accuracy_difference"] == pytest.approx(difference)
    assert not [name for name in figures if name.startswith("r_score")]


def test_differences_of_r_score_use_its_tolerance_and_limit() -> None:
    first, second = _records(0.6, 1), _records(0.9, 2)
    figures = paired_differences(
        first, second, resamples=40, seed=5, r_score=RScore(tolerance=0.01, limit=0.5)
    )
    both = np.concatenate([first.accuracies, second.accuracies])
    drawn = resampled_means(both, 40, 5)

    def score(clean: np.ndarray, noisy: np.ndarray) -> np.ndarray:
        change = np.sqrt(np.abs(clean - noisy))
        return np.clip((0.5**0.5 - change) / (0.5**0.5 - 0.1), 0, 1)

    for level in (1, 2):
        found = figures[f"r_score_difference_{level}"]
        measured = both.mean(axis=1)
        expected = score(measured[3], measured[3 + level]) - score(measured[0], measured[level])
        assert found == pytest.approx(float(expected))
        each = score(drawn[:, 3], drawn[:, 3 + level]) - score(drawn[:, 0], drawn[:, level])
        bounds = [figures[f"r_score_difference_{level}_{end}"] for end in ("low", "high")]
        np.testing.assert_allclose(bounds, interval(each))


def test_an_interval_of_paired_answers_is_narrower_than_of_independent_ones() -> None:
    """Models that fail on the same questions have a narrower interval of the difference."""
    first, alike, other = _records(0.8, 3), _records(0.78, 3), _records(0.78, 4)
    width = {}
    for name, second in (("alike", alike), ("other", other)):
        figures = paired_differences(first, second)
        ends = [figures[f"partition_0/accuracy_difference_{end}"] for end in ("low", "high")]
        width[name] = ends[1] - ends[0]
    assert width["alike"] < width["other"] / 2


def test_intervals_and_tests_of_differences_are_over_images() -> None:
    """Two images, of which each model answers the questions about one: nothing is certain."""
    half = np.repeat([1.0, 0.0], 300)
    one, other = (
        replace(_records(0.8, 0, levels=1), image_ids=np.repeat([1, 2], 300), accuracies=rows[None])
        for rows in (half, half[::-1])
    )
    figures = paired_differences(one, other)
    ends = [figures[f"partition_0/accuracy_difference_{end}"] for end in ("low", "high")]
    assert ends == [-1, 1]
    more = replace(other, accuracies=np.ones((1, 600)))
    found = paired_differences(one, more)
    assert found["partition_0/only_second"] == 300
    assert found["partition_0/p_value"] == 0.5  # one image differs: the mid-p value of one throw


def test_only_common_questions_are_compared() -> None:
    whole, part = _records(0.8, 0), _records(0.8, 0).select(np.arange(400, 100, -1))
    left, right = common_questions([whole, part])
    assert left.question_ids.tolist() == right.question_ids.tolist() == list(range(101, 401))
    np.testing.assert_array_equal(left.accuracies, right.accuracies)
    assert paired_differences(whole, part)["questions"] == 300
    with pytest.raises(ValueError, match="share no question"):
        paired_differences(whole, _records(0.8, 0, range(700, 710)))
    with pytest.raises(ValueError, match="has 2 levels of noise and another one 1"):
        paired_differences(whole, _records(0.8, 0, levels=2))
