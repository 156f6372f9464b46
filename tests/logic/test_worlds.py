"""Least number of errors against brute force; suspicions against simulated models."""

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from ivqa.logic import (
    Contradiction,
    PictureAnswers,
    Suspicion,
    errors_at_least,
    follow_ups,
    left_out,
    suspicions,
)
from ivqa.logic.existence import Propositions, existence, posterior

_SHAPES = ("star", "heart", "circle", "square", "cross", "triangle")
_COLORS = ("red", "blue", "green", "yellow", "black", "white")


def _random_contradictions(seed: int) -> tuple[NDArray[np.float64], list[Contradiction]]:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 9))
    found = []
    for _ in range(int(rng.integers(1, 9))):
        size = int(rng.integers(2, min(count, 4) + 1))
        members = tuple(sorted(int(one) for one in rng.choice(count, size, replace=False)))
        found.append(Contradiction(members, "bounds", certain=True))
    return rng.uniform(0.1, 3, count), found


def _brute_force(weights: NDArray[np.float64], found: list[Contradiction]) -> float:
    """The least weight of a set that has a member of each contradiction, by trying all sets."""
    rows = range(len(weights))
    return min(
        float(sum(weights[row] for row in gone))
        for size in range(len(weights) + 1)
        for gone in combinations(rows, size)
        if all(set(gone) & set(one.members) for one in found)
    )


@pytest.mark.parametrize("seed", range(25))
def test_left_out_is_a_lightest_hitting_set(seed: int) -> None:
    weights, found = _random_contradictions(seed)
    gone = left_out(weights, found)
    assert all(gone[list(one.members)].any() for one in found)
    assert weights[gone].sum() == pytest.approx(_brute_force(weights, found))


@pytest.mark.parametrize("seed", range(25))
def test_errors_at_least_is_the_size_of_a_smallest_hitting_set(seed: int) -> None:
    weights, found = _random_contradictions(seed)
    least = _brute_force(np.ones(len(weights)), found)
    assert errors_at_least(len(weights), found) == least


@pytest.mark.parametrize("seed", range(10))
def test_the_rest_is_the_most_probable_world(seed: int) -> None:
    weights, found = _random_contradictions(seed)
    right = 1 / (1 + np.exp(-weights))
    best = max(
        float(np.prod(np.where(kept, right, 1 - right)))
        for kept in product((True, False), repeat=len(weights))
        if not any(all(kept[row] for row in one.members) for one in found)
    )
    kept = ~left_out(weights, found)
    assert float(np.prod(np.where(kept, right, 1 - right))) == pytest.approx(best)


def test_errors_at_least_counts_certain_contradictions_only() -> None:
    found = [
        Contradiction((0, 1), "polarity", certain=True),
        Contradiction((2, 3), "value", certain=False),
    ]
    assert errors_at_least(4, found) == 1
    assert errors_at_least(4, []) == 0


@pytest.mark.parametrize("seed", range(8))
def test_posterior_is_exact_on_a_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    number = 7
    child = np.arange(1, number)
    parent = np.array([rng.integers(0, one) for one in child])
    if seed % 2:  # a child with two roots as its parents is a tree as well
        parent[0], child = 2, np.append(child[1:], 3)
        parent = np.append(np.minimum(parent[1:], 0), 1)
        child, parent = np.array([2, 2, 3, 4, 5, 6]), np.array([0, 1, 2, 2, 3, 3])
    prior, evidence = rng.uniform(0.1, 0.9, number), rng.normal(0, 1.5, number)
    total = np.zeros(number)
    mass = 0.0
    for world in product((0, 1), repeat=number):
        state = np.array(world)
        possible = np.ones(number)
        np.minimum.at(possible, child, state[parent])
        true = prior * possible
        weight = np.prod(np.where(state, true, 1 - true)) * np.exp(evidence @ state)
        mass += weight
        total += weight * state
    assert posterior(prior, evidence, child, parent) == pytest.approx(total / mass, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_existence_recovers_the_truth_without_labels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    number = 4000
    child = np.arange(number // 2, number)
    parent = child - number // 2
    truth = rng.random(number) < 0.5
    truth[child] &= truth[parent]
    # The model says yes too readily; a second kind of report is weak, but knows no such bias.
    said = np.where(truth, rng.normal(1.5, 1, number), rng.normal(0.5, 1, number))
    named = np.where(truth, rng.normal(1, 1, number), rng.normal(-1, 1, number))
    both = np.stack([said, named, np.full(number, np.nan)], axis=1)
    found = existence(Propositions(np.repeat([0, 1], number // 2), both, child, parent))
    assert abs(found.mean() - truth.mean()) < 0.05
    assert ((found > 0.5) == truth).mean() > 0.85 > ((said > 0) == truth).mean() + 0.2
    # Calibrated: of those near 0.9, about nine in ten are true.
    sure = (found > 0.8) & (found < 0.97)
    assert abs(truth[sure].mean() - found[sure].mean()) < 0.1


def test_existence_of_a_model_that_says_yes_to_everything() -> None:
    rng = np.random.default_rng(0)
    number = 4000
    truth = rng.random(number) < 0.4
    said = rng.normal(0.8, 0.4, number)
    named = np.where(truth, rng.normal(1, 1, (2, number)), rng.normal(-1, 1, (2, number)))
    reports = np.stack([said, named.min(0), named.max(0)], axis=1)
    nothing = np.zeros(0, int)
    found = existence(Propositions(np.zeros(number, int), reports, nothing, nothing))
    assert ((found > 0.5) == truth).mean() > 0.85
    assert abs(found.mean() - truth.mean()) < 0.05


class _Model:
    """A simulated VQA model: reliable in naming, says yes to most things."""

    absent = 0.2  # mean log-odds of a yes to an absent thing
    names = True  # whether it knows what it names

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        draw = rng.integers(0, 6, (3, 2))
        self.things = [(_COLORS[color], _SHAPES[shape]) for color, shape in draw]

    def ask(self, question: str) -> tuple[str, float, bool]:
        """Answer, confidence and whether it is right."""
        words = question.strip("?").split()
        color = next((word for word in words if word in _COLORS), None)
        shape = next((word for word in words if word in _SHAPES), None)
        values = [one for one in self.things if color in (None, one[0]) and shape in (None, one[1])]
        if words[0] == "What":
            options = _COLORS if words[1] == "color" else _SHAPES
            right = {one[0] if words[1] == "color" else one[1] for one in values}
            confidence = float(self.rng.uniform(0.6, 1))
            known = right and self.names and self.rng.random() < confidence
            answer = str(self.rng.choice(sorted(right) if known else options))
            return answer, confidence, answer in right
        log_odds = self.rng.normal(1.6 if values else self.absent, 0.8)
        yes = bool(log_odds > 0)
        return "yes" if yes else "no", float(1 / (1 + np.exp(-abs(log_odds)))), yes == bool(values)


def _asked(seed: int, pictures: int = 150) -> tuple[list[PictureAnswers], NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    answers, right = [], []
    for _ in range(pictures):
        model = _Model(rng)
        beliefs: dict[str, tuple[str, float, bool]] = {}
        for question in _questions(rng):
            beliefs[question] = model.ask(question)
        for _ in range(2):
            for question, (answer, _, _) in list(beliefs.items()):
                for further in follow_ups(question, answer):
                    if "pattern" not in further and further not in beliefs and len(beliefs) < 40:
                        beliefs[further] = model.ask(further)
        answers.append(_picture(beliefs))
        right += [one[2] for one in beliefs.values()]
    return answers, np.array(right)


def _picture(beliefs: dict[str, tuple[str, float, bool]]) -> PictureAnswers:
    answers = [(question, one[0]) for question, one in beliefs.items()]
    return PictureAnswers(answers, np.array([one[1] for one in beliefs.values()]))


def _questions(rng: np.random.Generator) -> Iterator[str]:
    for _ in range(4):
        color, shape = rng.choice(_COLORS), rng.choice(_SHAPES)
        yield f"Is there a {color} {shape}?"
        yield f"What color is the {shape}?"


def _all(found: list[Suspicion], name: str) -> NDArray[np.float64]:
    return np.concatenate([getattr(one, name) for one in found])


@pytest.mark.parametrize("seed", range(3))
def test_error_is_estimated_without_labels(seed: int) -> None:
    pictures, right = _asked(seed)
    found = suspicions(pictures)
    assert abs(_all(found, "right").mean() - right.mean()) < 0.05
    suspect = _all(found, "suspect").astype(bool)
    assert (~right[suspect]).mean() > 0.85
    # Not a few certain ones alone.
    assert suspect[~right].mean() > 0.25


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_a_witness_says_what_is_there(seed: int) -> None:
    """The model says yes to absent things as readily, and names any; another one is asked too."""
    rng = np.random.default_rng(seed)
    pictures, witness, right = [], [], []
    for _ in range(150):
        model, other = _Model(rng), _Model(rng)
        other.things = model.things
        model.absent, model.names = 1.6, False
        beliefs = {question: model.ask(question) for question in _questions(rng)}
        for question, (answer, _, _) in list(beliefs.items()):
            for further in follow_ups(question, answer):
                if "pattern" not in further:
                    beliefs[further] = model.ask(further)
        pictures.append(_picture(beliefs))
        witness.append(_picture({question: other.ask(question) for question in beliefs}))
        right += [one[2] for one in beliefs.values()]
    truth = np.array(right)
    found = [suspicions(pictures, witnesses) for witnesses in ([], [witness])]
    alone, told = (_all(one, "suspect").astype(bool) for one in found)
    assert truth[told].mean() < 0.03 < 0.09 < truth[alone].mean()
    assert told[~truth].mean() > 0.35


def test_a_witness_of_other_pictures_is_refused() -> None:
    picture = PictureAnswers([("Is there a star?", "no")])
    with pytest.raises(ValueError, match="a witness does not speak of 2 pictures"):
        suspicions([picture, picture], [[picture]])


def test_order_of_pictures_and_answers_is_irrelevant() -> None:
    pictures, _ = _asked(0, pictures=30)
    turned = [
        PictureAnswers(list(one.beliefs)[::-1], one.confidences[::-1])
        for one in reversed(pictures)
        if one.confidences is not None
    ]
    found, other = suspicions(pictures), suspicions(turned)
    for one, two in zip(found, reversed(other), strict=True):
        assert one.right == pytest.approx(two.right[::-1], abs=1e-9)
        assert len(one.contradictions) == len(two.contradictions)


def test_what_an_answer_rests_on() -> None:
    picture = PictureAnswers(
        [
            ("Is there a star?", "no"),
            ("Do you see a star?", "no"),
            ("What color is the star?", "red"),
            ("How many stars are there?", "0"),
            ("What is the weather like?", "sunny"),
        ],
        np.array([0.95, 0.95, 0.9, 0.6, 0.7]),
    )
    (found,) = suspicions([picture])
    no, again, color, count, weather = found.right
    assert no == again == count > 0.8  # each is right if there is no star
    assert color <= 0.9 * (1 - no) + 1e-9  # right only if there is one
    assert weather == pytest.approx(0.7, abs=0.3)


def test_answers_without_confidences() -> None:
    beliefs = [("Is there a star?", "no"), ("What color is the star?", "red")]
    (found,) = suspicions([PictureAnswers(beliefs)])
    assert found.right[0] > found.right[1]
    assert [one.members for one in found.contradictions] == [(0, 1)]


def test_no_pictures_and_no_answers() -> None:
    assert suspicions([]) == []
    (found,) = suspicions([PictureAnswers([])])
    assert found.right.shape == found.suspect.shape == (0,)


@pytest.mark.parametrize(
    ("confidences", "message"),
    [([0.5], "2 answers have 1 confidences"), ([0.5, 1.5], r"outside \[0, 1\]")],
)
def test_invalid_confidences(confidences: list[float], message: str) -> None:
    beliefs = [("Is there a star?", "no"), ("Is it raining?", "no")]
    with pytest.raises(ValueError, match=message):
        suspicions([PictureAnswers(beliefs, np.array(confidences))])
