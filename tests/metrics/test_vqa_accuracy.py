import random
from collections.abc import Callable

import numpy as np
import pytest
import torch

from ivqa.metrics import VQAAccuracy, vqa_accuracies
from ivqa.text.answer_matching import VQA_2015, VQA_SHORTCUT, AnswerRule
from ivqa.text.normalisation import normalise_answer, strip_punctuation

ANSWERS = ["yes", "no", "2", "two", "a dog", "dog", "Dogs.", "dont know", "don't know", "red"]


def _official(prediction: str, given: list[str]) -> float:
    """The loop of the official evaluation: one leave-one-out subset at a time."""
    prediction = prediction.strip()
    if len(set(given)) > 1:
        given = [normalise_answer(answer) for answer in given]
        prediction = normalise_answer(prediction)
    accuracies = []
    for left_out in range(len(given)):
        others = [answer for index, answer in enumerate(given) if index != left_out]
        accuracies.append(min(1.0, sum(answer == prediction for answer in others) / 3))
    return sum(accuracies) / len(accuracies)


def test_it_equals_the_published_loop_on_random_cases() -> None:
    rng = random.Random(0)
    predictions, given, expected = [], [], []
    for _ in range(1000):
        pool = rng.sample(ANSWERS, rng.randint(1, 4))
        given.append([rng.choice(pool) for _ in range(10)])
        predictions.append(rng.choice([*pool, rng.choice(ANSWERS)]))
        expected.append(_official(predictions[-1], given[-1]))
    np.testing.assert_allclose(vqa_accuracies(predictions, given), expected, rtol=0, atol=1e-12)


def _of_2015(prediction: str, given: list[str]) -> float:
    """The loop of the 2015 revision, which normalises the prediction in every case."""
    prediction = normalise_answer(prediction)
    if len(set(given)) > 1:
        given = [strip_punctuation(answer) for answer in given]
    accuracies = []
    for left_out in range(len(given)):
        others = [answer for index, answer in enumerate(given) if index != left_out]
        accuracies.append(min(1.0, sum(answer == prediction for answer in others) / 3))
    return sum(accuracies) / len(accuracies)


def _shortcut(prediction: str, given: list[str]) -> float:
    if len(set(given)) > 1:
        given = [normalise_answer(answer) for answer in given]
        prediction = normalise_answer(prediction)
    return min(given.count(prediction) / 3, 1.0)


@pytest.mark.parametrize(
    ("reference", "rule"),
    [(_shortcut, VQA_SHORTCUT), (_of_2015, VQA_2015)],
)
def test_the_other_variants_equal_their_definitions(
    reference: Callable[[str, list[str]], float], rule: AnswerRule
) -> None:
    rng = random.Random(1)
    predictions, given = [], []
    for _ in range(1000):
        pool = rng.sample(ANSWERS, rng.randint(1, 4))
        given.append([rng.choice(pool) for _ in range(10)])
        predictions.append(rng.choice([*pool, rng.choice(ANSWERS)]))
    expected = [reference(*case) for case in zip(predictions, given, strict=True)]
    found = vqa_accuracies(predictions, given, rule=rule)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert (found != vqa_accuracies(predictions, given)).any()


def test_types_are_averaged_separately_and_unknown_types_count_overall() -> None:
    metric = VQAAccuracy()
    metric.update(torch.tensor([1.0, 0.3]), torch.tensor([0, 1]))
    metric.update(torch.tensor([0.0, 1.0]), torch.tensor([0, -1]))
    found = {name: value.item() for name, value in metric.compute().items()}
    assert found == {
        "vqa_accuracy": pytest.approx(2.3 / 4),
        "yes_no": 0.5,
        "number": pytest.approx(0.3),
    }


def test_predictions_and_questions_must_match() -> None:
    with pytest.raises(ValueError, match="1 predictions for 2 questions"):
        vqa_accuracies(["yes"], [["yes"], ["no"]])
