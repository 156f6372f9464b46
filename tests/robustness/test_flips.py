"""Answers that change under noise, and the examples of them."""

import numpy as np
import pytest

from ivqa.robustness.comparison import Flips, flips_at
from ivqa.robustness.records import NoiseRecords

# Seven questions, right from an accuracy of 0.5 on: one of ten annotators, 0.3, is not enough.
CLEAN = (["yes", "yes", "2", "a", "b", "c", "d"], [1.0, 0.3, 1.0, 0.0, 0.6, 0.5, 0.3])
# Question 4 changes but stays right, 5 falls below 0.5, and "two" is the same answer as "2".
NOISY = (["no", "no", "two", "b", "c", "d", "d"], [0.0, 0.6, 1.0, 0.3, 0.5, 0.4, 0.3])


def _flips(level: int) -> tuple[list[int], list[int], list[int]]:
    ids = np.arange(7)
    between = (["yes", "yes", "2", "a", "b", "c", "e"], [*CLEAN[1][:6], 1.0])
    answers, accuracies = zip(CLEAN, between, NOISY, strict=True)
    kinds, blind = ["other"] * 7, np.zeros(7)
    records = NoiseRecords(ids, ids, kinds, answers, np.array(accuracies), blind)
    found = flips_at(records, level)
    return found.broken.tolist(), found.repaired.tolist(), found.other.tolist()


def test_flips_are_broken_repaired_or_neither() -> None:
    assert _flips(2) == ([0, 5], [1], [3, 4])
    assert _flips(1) == ([], [6], [])


@pytest.mark.parametrize(
    ("broken", "repaired", "number", "shown"),
    [
        (30, 10, 6, (4, 2)),  # two thirds are broken
        (30, 10, 7, (5, 2)),
        (30, 10, 1, (1, 0)),
        (1, 10, 6, (1, 5)),  # the others take the places that are left
        (30, 1, 6, (5, 1)),
        (0, 10, 6, (0, 6)),
        (30, 0, 6, (6, 0)),
        (1, 1, 6, (1, 1)),
    ],
)
def test_two_thirds_of_the_examples_are_broken(
    broken: int, repaired: int, number: int, shown: tuple[int, int]
) -> None:
    flips = Flips(np.arange(broken), 100 + np.arange(repaired), np.array([200]))
    drawn = flips.examples(number)
    assert [row >= 100 for row in drawn] == [False] * shown[0] + [True] * shown[1]
    assert len(set(drawn)) == len(drawn)


def test_a_seed_draws_the_same_examples_again() -> None:
    flips = Flips(np.arange(30), 100 + np.arange(30), np.array([], dtype=np.int64))
    draws = [tuple(flips.examples(12, seed)) for seed in range(5)]
    assert draws == [tuple(flips.examples(12, seed)) for seed in range(5)]
    assert len(set(draws)) == 5
    assert tuple(flips.examples(12)) == draws[0]
    assert set(flips.examples(60)) == {*range(30), *range(100, 130)}
