"""POPE's metrics against counts by hand, and its rule for free text."""

import pytest

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
