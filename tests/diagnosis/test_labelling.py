"""The beliefs that people are asked about, and the shares that their labels give."""

from dataclasses import replace

import numpy as np
import pytest

from ivqa.diagnosis import Belief, drawn_for_labels, estimated_shares
from ivqa.diagnosis.beliefs.beliefs import BeliefType
from ivqa.diagnosis.beliefs.labelling import doubts
from ivqa.metrics import prediction_powered

BASE = Belief(1, "yes", "Is it red?", 0.75, -3.0, 0.9, "rl")


def _judged(doubts: list[float]) -> list[Belief]:
    return [replace(BASE, question=f"Q{at}", judge_wrong=p) for at, p in enumerate(doubts)]


def _typed(beliefs: list[Belief], kinds: list[BeliefType | None], by: str) -> list[Belief]:
    return [
        replace(one, type=kind, type_by=by if kind else None)  # type: ignore[arg-type]
        for one, kind in zip(beliefs, kinds, strict=True)
    ]


def test_doubt_comes_from_the_judge_or_the_type_or_the_model() -> None:
    beliefs = [
        replace(BASE, type="rephrase", judge_wrong=0.375),
        replace(BASE, type="rephrase"),
        replace(BASE, type="irrelevant"),
        BASE,
    ]
    assert doubts(beliefs).tolist() == [0.375, 0, 1, 0.25]


def test_doubtful_beliefs_are_drawn_more_often_at_every_length() -> None:
    """Of 100 beliefs, the judge is sure of 90; the first n hold each as often as stated."""
    beliefs = _judged([0.0] * 90 + [0.5] * 10)
    counts = {10: np.zeros(100), 20: np.zeros(100)}
    for seed in range(4000):
        drawn = drawn_for_labels(beliefs, limit=20, seed=seed)
        assert len({row for row, _ in drawn}) == 20
        for length, count in counts.items():
            count[[row for row, _ in drawn[:length]]] += 1
    # Half of the probability is even, half on the ten; at most 1 / 2 limit for one belief.
    q = np.array([(1 - 10 / 40) / 90] * 90 + [1 / 40] * 10)
    weights = dict(drawn_for_labels(beliefs, limit=20))
    assert all(weights[row] == pytest.approx(1 / (100 * q[row])) for row in weights)
    for length, count in counts.items():
        assert count[:90].mean() / 4000 == pytest.approx(length * q[0], rel=0.02)
        assert count[90:].mean() / 4000 == pytest.approx(length * q[-1], rel=0.02)


def test_few_beliefs_are_all_drawn_with_equal_weights() -> None:
    beliefs = _judged([0.5, 0.01, 0.99, 0.3])
    drawn = drawn_for_labels(beliefs)
    assert sorted(drawn) == [(row, pytest.approx(1)) for row in range(4)]
    assert drawn_for_labels(beliefs) == drawn
    assert drawn_for_labels([]) == []
    certain = [replace(BASE, question=f"Q{at}", type="rephrase") for at in range(900)]
    assert [weight for _, weight in drawn_for_labels(certain)] == pytest.approx([1] * 500)


def test_shares_from_labels_that_were_drawn_by_doubt_hold() -> None:
    """1,000 samples of 100 labels: without the weights the share would be far too high."""
    rng = np.random.default_rng(0)
    p = np.where(rng.random(3000) < 0.7, 0.05, 0.5)
    wrong = rng.random(3000) < p
    beliefs = _judged(p.tolist())
    kinds: list[BeliefType | None] = ["irrelevant" if one else "rephrase" for one in wrong]
    people = _typed(beliefs, kinds, "human")
    guess = doubts(beliefs)
    found, plain, estimates = [], [], []
    for seed in range(1000):
        rows, weights = map(list, zip(*drawn_for_labels(beliefs, seed=seed)[:100], strict=True))
        one = prediction_powered(wrong[rows], guess[rows], guess, weights)
        found.append(one.low <= wrong.mean() <= one.high)
        estimates.append(one.estimate)
        plain.append(wrong[rows].mean())
    assert 0.93 <= np.mean(found) <= 0.975
    assert np.mean(estimates) == pytest.approx(wrong.mean(), abs=0.005)
    assert np.mean(plain) > wrong.mean() + 0.04
    # The function of the command reads the same labels and weights.
    labelled, given = list(beliefs), np.ones(3000)
    for row, weight in zip(rows, weights, strict=True):
        labelled[row], given[row] = people[row], weight
    shares = estimated_shares(labelled, beliefs, given)
    assert shares["beliefs/incorrect_ppi"] == estimates[-1]
    assert shares["beliefs/labels"] == 100


def test_shares_of_types_use_the_types_of_the_judge() -> None:
    guessed: list[BeliefType | None] = ["rephrase", "adversarial", "irrelevant", "irrelevant"] * 5
    judged = _typed(_judged([0.25, 0.75, 0.75, 1.0] * 5), guessed, "judge")
    given: list[BeliefType | None] = ["rephrase", "adversarial", "adversarial", "irrelevant"]
    labelled = _typed(judged, [*given, *given, *[None] * 12], "human")
    shares = estimated_shares(labelled, judged, np.full(20, 3.0))
    expected = {
        "incorrect": prediction_powered([0, 1, 1, 1] * 2, [0.25, 0.75, 0.75, 1] * 2,
                                        [0.25, 0.75, 0.75, 1] * 5),
        "adversarial": prediction_powered([0, 1, 1, 0] * 2, [0, 1, 0, 0] * 2, [0, 1, 0, 0] * 5),
        "irrelevant": prediction_powered([0, 0, 0, 1] * 2, [0, 0, 1, 1] * 2, [0, 0, 1, 1] * 5),
    }  # fmt: skip
    for name, one in expected.items():
        own = [shares[f"beliefs/{name}_ppi{end}"] for end in ("", "_low", "_high")]
        assert own == pytest.approx([one.estimate, one.low, one.high])
    assert shares["beliefs/complementary_ppi"] == 0
    few = _typed(judged, ["rephrase", "rephrase", *[None] * 18], "human")
    assert estimated_shares(few, judged, np.ones(20)) == {}
