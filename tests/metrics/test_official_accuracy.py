"""All functions that score answers, compared with `official_rules` on 10,000 cases."""

import json
import random
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from official_rules import CONTRACTIONS, DIGIT_OF, KEPT, MARKS, official_score

from ivqa.data import VQADataset
from ivqa.data.results import read_results
from ivqa.metrics import vqa_accuracies
from ivqa.robustness.records import NoiseRecords
from ivqa.text.answer_matching import VQA_2015, VQA_2018
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa.scores import score_answers

WORDS = ["yes", "no", "red", "light blue", "2", "10", "1,000", "3.5", "2:50", "none", "a", "the"]
WORDS += [*DIGIT_OF, *CONTRACTIONS, "dog", "a dog", "an apple", "the beach", "black/white"]
SPACES = ["", "", "", " ", "  ", "\n", "\t", "\r\n", "\u00a0", " \n\t"]

Case = tuple[str, list[str]]
RULES = {2015: VQA_2015, 2018: VQA_2018}


def _written(rng: random.Random, word: str) -> str:
    """A random spelling of a word: case, punctuation, articles and white space."""
    if rng.random() < 0.15:
        word = f"{rng.choice(['a', 'an', 'the', 'The'])} {word}"
    if rng.random() < 0.25:
        at = rng.randrange(len(word) + 1)
        mark = rng.choice([*MARKS, *KEPT, "..", "." * 40, "(,"])
        word = word[:at] + rng.choice(["", " "]) + mark + rng.choice(["", " "]) + word[at:]
    if rng.random() < 0.2:
        word = word.replace(" ", rng.choice(["  ", "\n", "\t", " \n "]))
    if rng.random() < 0.2:
        word = rng.choice([str.upper, str.title, str.capitalize])(word)
    if rng.random() < 0.2:
        word = rng.choice(SPACES) + word + rng.choice(SPACES)
    return word


def _case(rng: random.Random) -> Case:
    meant = rng.sample(WORDS, rng.choice([1, 1, 2, 3]))
    if rng.random() < 0.2:  # a digit and its word are one answer if the annotators differ
        number = rng.randrange(11)
        meant += [str(number), DIGIT_OF[number]]
    written = [_written(rng, word) for word in meant for _ in range(2)] + meant
    n = rng.choice([10] * 10 + list(range(1, 12)))
    kind = rng.random()
    if kind < 0.2:  # unanimous, letter by letter
        given = [rng.choice(written)] * n
    elif kind < 0.35:  # unanimous except for white space
        word = rng.choice(meant)
        given = [rng.choice(SPACES) + word + rng.choice(SPACES) for _ in range(n)]
    else:
        given = [rng.choice(written) for _ in range(n)]
    prediction = rng.choice([rng.choice(given), rng.choice(written), _written(rng, meant[0])])
    if rng.random() < 0.3:
        prediction = rng.choice(SPACES) + prediction.strip() + rng.choice(SPACES)
    return prediction, given


@cache
def cases() -> list[Case]:
    rng = random.Random(25)
    return [_case(rng) for _ in range(10_000)]


@cache
def expected(revision: int) -> np.ndarray:
    return np.array([official_score(*case, revision) for case in cases()])


def first_differences(found: np.ndarray, wanted: np.ndarray) -> list[tuple]:
    apart = np.flatnonzero(np.abs(found - wanted) > 1e-9)[:5]
    return [(cases()[at], float(found[at]), float(wanted[at])) for at in apart]


def test_the_cases_cover_the_rules() -> None:
    new, old = expected(2018), expected(2015)
    assert set(range(1, 12)) == {len(given) for _, given in cases()}
    assert {0.0, 0.3, 0.6, 0.9, 1.0} <= set(new.round(6))
    assert min((new > 0).mean(), (new < 1).mean(), (new != old).mean(), (old > 0).mean()) > 0.15
    raw = np.array([given.count(prediction) == 0 for prediction, given in cases()])
    assert (new[raw] > 0).sum() > 500  # equal only after normalisation
    cleaned = [({text.strip() for text in given}, len(set(given))) for _, given in cases()]
    assert sum(len(texts) == 1 and number > 1 for texts, number in cleaned) > 500


@pytest.mark.parametrize("revision", [2015, 2018])
def test_accuracies_of_predictions(revision: int) -> None:
    found = vqa_accuracies(*zip(*cases(), strict=True), rule=RULES[revision])
    assert first_differences(found, expected(revision)) == []


@pytest.mark.parametrize("revision", [2015, 2018])
def test_soft_targets_of_a_vocabulary(revision: int) -> None:
    """Scores of all answers of the vocabulary, not only of one prediction for each question."""
    rng = random.Random(1)
    some = rng.sample(cases(), 300)
    answers = list(dict.fromkeys(prediction for prediction, _ in some[:60]))
    soft = AnswerVocabulary(answers).soft_targets(
        [given for _, given in some], rule=RULES[revision]
    )
    wanted = [[official_score(answer, given, revision) for answer in answers] for _, given in some]
    np.testing.assert_allclose(soft.dense(np.arange(len(some))), wanted, atol=1e-6)
    assert (np.array(wanted) > 0).sum() > 150


def test_counts_use_the_normalised_answers() -> None:
    """The rule for n = 1, with the normalisation that all answers of the question get."""
    given = ["Yes", "yes.", " yes", "no", "the no", "two", "2\n", "dont know", "a", "maybe"]
    answers = ["yes", "no", "2", "don't know", "perhaps", "YES"]
    soft = AnswerVocabulary(answers).soft_targets([given, ["none"] * 4, ["no", "no "]])
    counts = soft.dense_counts(np.arange(3)).tolist()
    assert counts == [[3, 2, 2, 1, 0, 3], [0] * 6, [0, 2, 0, 0, 0, 0]]
    assert soft.counts.sum() == 13


def _root(folder: Path) -> VQADataset:
    asked = [{"image_id": 1, "question_id": at, "question": "is it?"} for at in range(len(cases()))]
    known = [
        {"question_id": at, "answer_type": "other", "answers": [{"answer": text} for text in given]}
        for at, (_, given) in enumerate(cases())
    ]
    results = [{"question_id": at, "answer": answer} for at, (answer, _) in enumerate(cases())]
    for name, content in {
        "questions_val.json": {"questions": asked},
        "annotations_val.json": {"annotations": known},
        "results.json": results,
    }.items():
        (folder / name).write_text(json.dumps(content))
    return VQADataset(folder, train="val", val="val")


def test_a_result_file_and_the_noise_curve_score_the_same(tmp_path: Path) -> None:
    split = _root(tmp_path).split("val")
    answers = read_results(tmp_path / "results.json", split)
    metrics = score_answers(split, answers)
    new, old = expected(2018), expected(2015)
    assert metrics["vqa/accuracy"] == pytest.approx(new.mean(), abs=1e-9)
    assert metrics["vqa/other"] == pytest.approx(new.mean(), abs=1e-9)
    assert metrics["vqa/accuracy_2015"] == pytest.approx(old.mean(), abs=1e-9)
    records = NoiseRecords.scored(split, [answers, answers])
    for level in records.accuracies:
        assert first_differences(level, new) == []


def test_white_space_around_a_prediction_is_ignored() -> None:
    unanimous, torn = ["no"] * 10, ["no"] * 5 + ["yes"] * 5
    for text in ("no", "no\n", "\tno", " no \r\n"):
        for revision in (2015, 2018):
            assert vqa_accuracies([text], [unanimous], rule=RULES[revision]).tolist() == [1]
            assert vqa_accuracies([text], [torn], rule=RULES[revision]).tolist() == [1]
    assert vqa_accuracies([], []).shape == (0,)
