"""The answer vocabulary, and its soft targets against a plain version of the official rule."""

import random

import numpy as np
import pytest
import torch

from ivqa.text.answer_matching import accuracy_of_matches
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.normalisation import normalise_answer


def official_accuracy(prediction: str, given: list[str]) -> float:
    """Leave-one-out average over the annotators, with the loops of the official evaluation."""
    if len(given) == 1 or len(set(given)) > 1:
        prediction, given = normalise_answer(prediction), [normalise_answer(a) for a in given]
    if len(given) != 10:
        return min(given.count(prediction) / min(3, len(given)), 1.0)
    subsets = [given[:i] + given[i + 1 :] for i in range(10)]
    return sum(min(subset.count(prediction) / 3, 1.0) for subset in subsets) / 10


def test_answers_are_ordered_by_count_then_alphabetically():
    answers = AnswerVocabulary.build(["b", "c", "a", "c", "d"], size=3)
    assert answers.answers == ["c", "a", "b"]
    assert len(answers) == 3
    assert "a" in answers
    assert "d" not in answers
    assert answers == AnswerVocabulary(["c", "a", "b"])
    assert hash(answers) == hash(AnswerVocabulary(["c", "a", "b"]))
    assert answers != AnswerVocabulary(["a", "c", "b"])  # other indices


def test_unknown_answers_have_the_index_minus_one():
    answers = AnswerVocabulary(["yes", "no"])
    encoded = answers.encode(["no", "maybe", "yes"])
    assert encoded.dtype == torch.int64
    assert encoded.tolist() == [1, -1, 0]
    assert answers.encode([]).shape == (0,)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: AnswerVocabulary(["yes", "no", "yes"]), "must be distinct; 'yes' occurs twice"),
        (lambda: AnswerVocabulary.build(["yes"], 0), "size must be at least 1, not 0"),
    ],
)
def test_errors(build, message: str):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("matches", "annotators", "expected"),
    [
        (0, 10, 0.0),
        (1, 10, 0.3),
        (2, 10, 0.6),
        (3, 10, 0.9),
        (4, 10, 1.0),
        (10, 10, 1.0),
        (1, 1, 1.0),
        (1, 2, 0.5),
        (2, 2, 1.0),
        (1, 3, 1 / 3),
        (2, 5, 2 / 3),
        (3, 5, 1.0),
        (0, 0, 0.0),
    ],
)
def test_accuracy_of_matches(matches: int, annotators: int, expected: float):
    value = accuracy_of_matches(np.array([matches]), np.array([annotators]))
    assert value[0] == pytest.approx(expected)


def test_soft_targets_equal_the_official_rule():
    rng = random.Random(0)
    raw = ["yes", "Yes.", "no", "none", "0", "two", "2", "the dog", "dog", "dont", "don't", "cat"]
    vocabulary = AnswerVocabulary(["yes", "no", "0", "2", "dog", "don't", "dont", "none"])
    given = [rng.choices(raw, k=rng.choice([1, 2, 3, 5, 10, 10, 10])) for _ in range(300)]
    given += [["none"] * 10, ["Yes."] * 10, []]
    expected = [
        [official_accuracy(answer, answers) if answers else 0.0 for answer in vocabulary.answers]
        for answers in given
    ]
    soft = vocabulary.soft_targets(given)
    assert len(soft) == len(given)
    dense = soft.dense(np.arange(len(given)))
    assert dense.dtype == torch.float32
    torch.testing.assert_close(dense, torch.tensor(expected), atol=1e-6, rtol=0)


def test_dense_accepts_rows_in_any_order_with_repeats():
    soft = AnswerVocabulary(["a1", "b"]).soft_targets([["a1"], ["c"], ["b", "a1"], []])
    rows = np.array([2, 2, 0, 3, 1])
    whole = soft.dense(np.arange(4))
    assert torch.equal(soft.dense(rows), whole[rows])
    assert soft.dense(np.array([], dtype=np.int64)).shape == (0, 2)
