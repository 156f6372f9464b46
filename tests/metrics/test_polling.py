"""POPE's metrics against counts by hand, and its rule for free text."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from ivqa.metrics.polling import polling_metrics, says_yes


def test_counts_by_hand() -> None:
    """Three hits, two false alarms, one miss, four right denials."""
    answers = ["Yes"] * 3 + ["yes, there is"] * 2 + ["No, there is not."] + ["no"] * 4
    present = [True] * 3 + [False] * 2 + [True] + [False] * 4
    assert polling_metrics(answers, present) == pytest.approx(
        {"accuracy": 0.7, "precision": 3 / 5, "recall": 3 / 4, "f1": 2 / 3, "yes_ratio": 0.5}
    )


def test_undefined_figures_are_left_out() -> None:
    assert polling_metrics(["no"], [False]) == {"accuracy": 1, "yes_ratio": 0}
    assert polling_metrics(["no"], [True]) == {"accuracy": 0, "recall": 0, "yes_ratio": 0}
    with pytest.raises(ValueError, match="1 answers for 2 questions"):
        polling_metrics(["no"], [True, False])


def test_the_rule_reads_the_first_sentence() -> None:
    assert says_yes("There is. No doubt")
    assert not says_yes("There is not, no.")
    assert not says_yes("No, sir")
    assert says_yes("Nothing")


def test_the_intervals_draw_whole_images() -> None:
    """Two images, one all right and one all wrong: a draw of both is either, or half of each."""
    answers, present = ["yes"] * 5 + ["no"] * 5, [True] * 10
    images = np.repeat([3, 8], 5)
    metrics = polling_metrics(answers, present, images)
    for name in ("accuracy", "recall", "yes_ratio"):
        assert (metrics[f"{name}_low"], metrics[name], metrics[f"{name}_high"]) == (0, 0.5, 1)
    # Draws of the second image alone say no "yes", and have no precision.
    assert (metrics["precision_low"], metrics["precision_high"]) == (1, 1)
    single = polling_metrics(answers, present, np.arange(10))
    assert 0 < single["recall_low"] < 0.5 < single["recall_high"] < 1


def test_the_interval_of_f1_is_that_of_drawn_images() -> None:
    """Every pair of two images, drawn with replacement: F1 by scikit-learn."""
    said, truth = np.array([[1, 1, 0], [1, 0, 1]]), np.array([[1, 0, 0], [1, 1, 1]])
    drawn = [f1_score(truth[[i, j]].ravel(), said[[i, j]].ravel()) for i in (0, 1) for j in (0, 1)]
    answers = ["yes" if value else "no" for value in said.ravel()]
    found = polling_metrics(answers, (truth.ravel() == 1).tolist(), np.repeat([0, 1], 3))
    assert found["f1_low"] == pytest.approx(min(drawn))
    assert found["f1_high"] == pytest.approx(max(drawn))
