"""R_score in words, at its ends and between them."""

import pytest

from ivqa.metrics import RScore
from ivqa.report.noise_words import below_blind, change_in_words, ends_of_score, score_in_words


@pytest.mark.parametrize(
    ("clean", "noisy", "change", "score"),
    [
        (0.811, 0.588, "falls by 22.3 points", "0.00, because it falls by 20 points or more"),
        (0.588, 0.811, "rises by 22.3 points", "0.00, because it rises by 20 points or more"),
        (0.6579, 0.5712, "falls by 8.7 points", "0.36"),
        (0.5, 0.4996, "falls by 0.04 points", "1.00, because it falls by 0.05 points or less"),
        (0.0, 0.0, "does not change", "1.00, because it changes by 0.05 points or less"),
    ],
)  # fmt: skip
def test_the_ends_of_r_score_are_named(clean: float, noisy: float, change: str, score: str) -> None:
    assert change_in_words(clean, noisy) == change
    assert score_in_words(clean, noisy, RScore()) == f"R_score {score}"


def test_the_words_have_the_tolerance_and_the_limit_of_the_score() -> None:
    own = RScore(tolerance=0.01, limit=0.5, losses_only=True)
    assert score_in_words(0.9, 0.3, own) == "R_score 0.00, because it falls by 50 points or more"
    assert score_in_words(0.9, 0.895, own) == "R_score 1.00, because it falls by 1 points or less"
    assert score_in_words(0.3, 0.9, own) == "R_score 1.00, because a rise costs nothing"
    assert ends_of_score(own).startswith("R_score 0: the accuracy falls by 50 points or more")


def test_only_models_that_are_not_better_than_the_blind_baseline_are_named() -> None:
    metrics = {"partition_0/accuracy": 0.3, "blind_accuracy": 0.33, "below_blind": 1.0}
    (line,) = below_blind("MLB", metrics, prefix="")
    assert "its accuracy is 30.0%, not above the 33.0% of a blind" in line
    assert below_blind("MLB", {**metrics, "below_blind": 0.0}, prefix="") == []
    assert below_blind("MLB", {}) == []
