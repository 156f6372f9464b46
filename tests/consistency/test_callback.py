"""callbacks=consistency on three images whose figures are computed by hand."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ivqa.consistency import (
    AnsweredQuestion,
    ConsistencyCallback,
    ConsistencyMeasure,
    ConsistencyRecords,
    Implied,
    answered,
    implied_split,
    read_images,
)
from ivqa.consistency.implied import ImpliedQuestion
from ivqa.data import DataError, VQADataModule, VQADataset, build_vocabularies
from ivqa.data.batches.batch import ImageBatch
from ivqa.data.oracles import FALSE_PREMISE, NOT_UNDERSTOOD, Judgement, Oracle
from ivqa.errors import UserError
from ivqa.logic import Contradiction, Implication, Suspicion
from ivqa.report.pages.consistency_page import consistency_sentences
from ivqa.text.answers import AnswerVocabulary

# Image, question, answers of ten annotators; their accuracies of the model's answers are 1, 0,
# 0.6 and 0.
DATA = [
    (1, "A?", ["yes"] * 10),
    (1, "B?", ["yes"] * 10),
    (2, "A?", ["yes"] * 2 + ["no"] * 8),
    (3, "C?", ["blue"] * 10),
]
FOLLOWS = {
    ("A?", "yes"): [
        Implication("one?", "yes", "first", True),
        Implication("two?", "no", "second rule", False),
    ],
    ("B?", "no"): [Implication("three?", "yes", "first", True)],
}
# On image 1: one? as implied, two? and three? not; on image 2: neither.
ANSWERS = {
    "A?": "yes",
    "B?": "no",
    "b? ": "no",
    "C?": "red",
    "one?": "yes",
    "two?": "yes",
    "three?": "no",
}
# Image 1: A, B, one, two, three. Image 2: A, one, two. Image 3: C.
FOUND = [
    ([0.9, 0.2, 1, 1, 0.3], [1], [((0, 3), "second rule", False), ((1, 4), "first", True)]),
    ([0.5, 0.4, 0.8], [0, 1], [((0, 1), "first", True), ((0, 2), "second rule", False)]),
    ([1.0], [], []),
]


WITNESSES: list[Any] = []  # of the last call of suspicions


class Scripted:
    """Answers as `ANSWERS` say with a probability of 0.75, but no to "one?" on image 2."""

    answers = AnswerVocabulary(["yes", "no", "red"])

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        ids = images.ids[images.index].tolist()
        self.asked += zip(ids, questions, strict=True)
        scores = torch.full((len(questions), 3), 0.125)
        for row, (image, text) in enumerate(zip(ids, questions, strict=True)):
            answer = "no" if (image, text) == (2, "one?") else ANSWERS[text]
            scores[row, self.answers.encode([answer])] = 0.75
        return scores.log()

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        best = self.log_scores(images, questions).argmax(dim=1).tolist()
        return [self.answers.answers[index] for index in best]


class Paid(Scripted):
    """Each question to it costs."""

    def usage(self) -> dict[str, float]:
        return {}


@pytest.fixture(autouse=True)
def _logic(monkeypatch: pytest.MonkeyPatch) -> None:
    def suspicions(pictures: Sequence[Any], witnesses: Sequence[Any] = ()) -> list[Suspicion]:
        WITNESSES[:] = witnesses
        return [
            Suspicion(
                np.array([*right, *[1.0] * 9][: len(picture.beliefs)]),
                np.isin(np.arange(len(picture.beliefs)), suspect),
                [Contradiction(*one) for one in found if max(one[0]) < len(picture.beliefs)],
            )
            for picture, (right, suspect, found) in zip(pictures, FOUND, strict=False)
        ]

    monkeypatch.setattr("ivqa.consistency.records.suspicions", suspicions)
    monkeypatch.setattr(
        "ivqa.consistency.implied.implications",
        lambda question, answer: FOLLOWS.get((question, answer), []),
    )
    monkeypatch.setattr("ivqa.consistency.implied.follow_ups", lambda *_: [])


@pytest.fixture(params=[True, False], ids=["annotated", "not annotated"])
def annotated(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def data(tmp_path: Path, annotated: bool) -> VQADataModule:
    rows = [{"image_id": row[0], "question_id": at} for at, row in enumerate(DATA)]
    asked = [{**own, "question": row[1]} for own, row in zip(rows, DATA, strict=True)]
    known = [
        {**own, "answers": [{"answer": text} for text in row[2]]}
        for own, row in zip(rows, DATA, strict=True)
    ]
    root = tmp_path / "data"
    root.mkdir()
    for split in ("train", "val"):
        (root / f"questions_{split}.json").write_text(json.dumps({"questions": asked}))
        if annotated or split == "train":
            (root / f"annotations_{split}.json").write_text(json.dumps({"annotations": known}))
    dataset = VQADataset(root, train="train", val="val")
    words, answers = build_vocabularies(dataset.split("train"))
    return VQADataModule(
        dataset=dataset, features=None, question_vocabulary=words, answer_words=answers
    )


def test_all_figures(data: VQADataModule, annotated: bool, tmp_path: Path) -> None:
    model = Scripted()
    metrics = ConsistencyCallback(batch_size=2).metrics(model, data, "val", tmp_path)
    figures = {name.removeprefix("consistency/"): value for name, value in metrics.items()}
    assert sorted(model.asked) == sorted(
        [(row[0], row[1]) for row in DATA]
        + [(1, "one?"), (1, "two?"), (1, "three?"), (2, "one?"), (2, "two?")]
    )
    expected = {
        "images": 3,
        "questions": 4,
        "asked": 5,
        "implied": 5,
        "unclear": 0,
        "rate": 1 / 5,
        "first/rate": 1 / 3,
        "first/implied": 3,
        "second_rule/rate": 0,
        "second_rule/implied": 2,
        "coverage": 3 / 4,
        "errors_at_least": 2 / 9,  # one certain error on image 1 and one on image 2
        "error_estimate": (0.1 + 0.8 + 0.5 + 0) / 4,
        "suspects": 2 / 4,
    }
    if annotated:
        expected |= {
            "error": (0 + 1 + 0.4 + 1) / 4,
            "suspects/precision": 1.4 / 2,
            "suspects/recall": 1.4 / 2.4,
        }
    # One of three images alone is drawn in 1 of 27 resamples, which is more than 2.5 percent.
    bounds = {
        "rate": (0, 1 / 3),  # of the images with implied questions
        "first/rate": (0, 1 / 2),
        "second_rule/rate": (0, 0),
        "coverage": (0, 1),
        "errors_at_least": (0, 1 / 3),
        "error_estimate": (0, 0.5),
        "suspects": (0, 1),
        **({"error": (0.4, 1)} if annotated else {}),
    }
    for name, ends in bounds.items():
        expected |= {f"{name}_low": ends[0], f"{name}_high": ends[1]}
    assert figures == pytest.approx(expected)


def test_the_files(data: VQADataModule, tmp_path: Path) -> None:
    ConsistencyCallback().metrics(Scripted(), data, "val", tmp_path)
    lines = [json.loads(one) for one in (tmp_path / "implications.jsonl").read_text().splitlines()]
    assert lines[2] == {
        "image_id": 1,
        "question_id": 1,
        "question": "B?",
        "answer": "no",
        "implied_question": "three?",
        "implied_answer": "yes",
        "rule": "first",
        "certain": True,
        "given_answer": "no",
        "confidence": pytest.approx(0.75),
        "consistent": False,
    }
    assert [one["consistent"] for one in lines] == [True, False, False, False, False]
    first, second, third = read_images(tmp_path)
    assert [one.errors_at_least for one in (first, second, third)] == [1, 1, 0]
    assert [one.question_id for one in first.answers] == [0, 1, None, None, None]
    assert [one.suspect for one in first.answers] == [False, True, False, False, False]
    assert first.contradictions[1] == Contradiction((1, 4), "first", True)
    (tmp_path / "consistency.jsonl").write_text('{"image_id": 1}\n')
    with pytest.raises(DataError, match="line 1: answers: Field required; evaluate"):
        read_images(tmp_path)


def test_a_served_model_has_a_budget_and_says_it_before(
    data: VQADataModule, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Paid()
    callback = ConsistencyCallback(max_paid_questions=3)
    metrics = callback.metrics(model, data, "val")
    printed = " ".join(capsys.readouterr().out.split())
    assert "4 questions about 3 images, and at most 3 further ones" in printed
    assert "asking 3 further questions" in printed
    # The first question of each image, then the second of image 1.
    assert model.asked[4:] == [(1, "one?"), (1, "three?"), (2, "one?")]
    assert metrics["consistency/asked"] == metrics["consistency/implied"] == 3
    assert callback.records(Paid(), data, "val").images[0].answers[0].confidence is None


@pytest.mark.parametrize("kind", [Scripted, Paid])
def test_a_witness_is_asked_all_that_the_model_was_asked(
    data: VQADataModule, kind: type[Scripted], capsys: pytest.CaptureFixture[str]
) -> None:
    model, witness = Scripted(), kind()
    callback = ConsistencyCallback(witness, max_paid_questions=6)
    records = callback.records(model, data, "val")
    paid = kind is Paid
    assert witness.asked == model.asked[: 6 if paid else None]
    assert ("asking the witness 6 questions" in capsys.readouterr().out) == paid
    # What it says about each image, in the order of the images.
    (said,) = WITNESSES
    asked = [(image.image_id, one.question) for image in records.images for one in image.answers]
    given = [
        (image.image_id, question)
        for image, one in zip(records.images, said, strict=True)
        for question, _ in one.beliefs
    ]
    assert set(given) == set(witness.asked)
    assert len(given) == (6 if paid else len(asked))
    figures = ConsistencyMeasure(resamples=10).figures(records, data.dataset.split("val"), None)
    assert figures["consistency/witness"] == len(witness.asked)
    # Its answers are no answers of the model.
    assert len(asked) == len(model.asked)
    alone = ConsistencyCallback().records(model, data, "val")
    assert WITNESSES == []
    assert alone.witness == 0


def test_whole_images_are_drawn(data: VQADataModule) -> None:
    split = data.dataset.split("val")
    drawn = [ConsistencyMeasure(num_images=2, seed=seed).chosen(split) for seed in range(9)]
    images = [tuple(one.image_ids.tolist()) for one in drawn]
    assert set(images) == {(1, 1, 2), (1, 1, 3), (2, 3)}
    more = ConsistencyMeasure(num_images=3).chosen(split)
    assert more is ConsistencyMeasure(num_images=None).chosen(split) is split


class _Knows(Oracle):
    """Knows the right answer, yes, to A and two?; C has a false premise."""

    def judge(self, image_id: int, question: str) -> Judgement:
        if question == "C?":
            return FALSE_PREMISE
        known = question in ("A?", "two?")
        return Judgement(True, True, "yes", frozenset({"yes"})) if known else NOT_UNDERSTOOD

    def fact(self, question: str) -> None:
        return None


def test_an_oracle_judges_before_annotators_and_also_implied_answers(
    data: VQADataModule, annotated: bool
) -> None:
    callback = ConsistencyCallback()
    records = callback.records(Scripted(), data, "val")
    figures = callback.measure.figures(records, data.dataset.split("val"), _Knows())
    # A on both images is right, C wrong; B is wrong by the annotations, else unknown.
    wrong = [0, 1, 0, 1] if annotated else [0, 0, 1]
    assert figures["consistency/error"] == pytest.approx(np.mean(wrong))
    assert figures["consistency/all_errors"] == pytest.approx(np.mean([*wrong, 0, 0]))


def test_failed_answers_are_left_out(data: VQADataModule) -> None:
    split = data.dataset.split("val")
    own = answered(split, ["yes", "", "yes", None])
    assert [one.question_id for one in own] == [0, 2]
    records = ConsistencyMeasure().asked(
        own, lambda texts: answered(implied_split(split, texts), ["yes"] * 4, implied=True)
    )
    assert [one.key for one, _ in records.implied] == [
        *((1, "one?"), (1, "two?"), (2, "one?"), (2, "two?"))
    ]
    with pytest.raises(UserError, match="none of the 4 answers to the questions of split 'val'"):
        answered(split, ["", "", "", ""])


def test_answers_to_yes_no_questions_that_are_neither_count_nowhere(data: VQADataModule) -> None:
    split = data.dataset.split("val")
    own = answered(split.select(np.array([0])), ["yes"])
    given = {"one?": "Yes, it is.", "Is there a car?": "chair", "What is it?": "chair"}
    texts = [AnsweredQuestion(1, question, answer) for question, answer in given.items()]
    follows = [
        Implication(question, "yes", "first", certain=False)
        for question in ("one?", "Is there a car?", "What is it?")
    ]
    premises = [ImpliedQuestion(own[0], one) for one in follows]
    records = ConsistencyRecords.of(own, Implied(premises, [], [True]), texts)
    assert records.unclear == 1
    assert [one.implication.question for one, _ in records.implied] == ["one?", "What is it?"]
    assert records.consistent.tolist() == [True, False]
    assert [one.answer for one in records.images[0].answers] == ["yes", "Yes, it is.", "chair"]
    figures = ConsistencyMeasure(resamples=10).figures(records, split, None)
    assert figures["consistency/asked"] == 3
    sentences = consistency_sentences(figures, "MLB")
    assert " of its 3 answers are wrong" in " ".join(sentences)
    assert "1 further yes/no questions are left out" in " ".join(sentences)


def test_nothing_follows(data: VQADataModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ivqa.consistency.implied.implications", lambda *_: [])
    metrics = ConsistencyCallback().metrics(Scripted(), data, "val")
    assert np.isnan(metrics["consistency/rate"])
    assert metrics["consistency/coverage"] == metrics["consistency/asked"] == 0


def test_it_runs_in_training_if_asked(data: VQADataModule) -> None:
    assert not ConsistencyCallback.validation_metrics({})
    names = ConsistencyCallback.validation_metrics({"every_n_epochs": 1})
    assert names <= ConsistencyCallback().metrics(Scripted(), data, "val").keys()
    # A generator answers nothing.
    ConsistencyCallback()._log(SimpleNamespace(), SimpleNamespace(), "val")  # type: ignore[arg-type]


def test_answers_to_questions_of_the_data_set_are_compared_without_asking_again(
    data: VQADataModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    follows = {("A?", "yes"): [Implication("b? ", "yes", "rule", True)]}
    monkeypatch.setattr(
        "ivqa.consistency.implied.implications", lambda *pair: follows.get(pair, [])
    )
    records = ConsistencyCallback().records(Scripted(), data, "val")
    # On image 1 the data set asks B itself, and the answer is no; on image 2 it is asked.
    assert [(one.key, given.question_id) for one, given in records.implied] == [
        ((1, "b?"), 1),
        ((2, "b?"), None),
    ]
    assert records.consistent.tolist() == [False, False]
    assert [len(image.answers) for image in records.images] == [2, 2, 1]


def test_a_second_round_follows_up_the_answers_of_the_first(
    data: VQADataModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {("one?", "yes"): ["C?", "A?", "two?"], ("one?", "no"): ["B?"]}
    monkeypatch.setattr("ivqa.consistency.implied.follow_ups", lambda *one: texts.get(one, []))
    model = Scripted()
    records = ConsistencyCallback(rounds=2).records(model, data, "val")
    # "one?" is yes on image 1, which A and two? were asked about, and no on image 2.
    assert model.asked[9:] == [(1, "C?"), (2, "B?")]
    assert [len(image.answers) for image in records.images] == [6, 4, 1]
    assert len(ConsistencyCallback(rounds=3).records(Scripted(), data, "val").images) == 3
    few = ConsistencyCallback(rounds=2, max_questions=3).records(Scripted(), data, "val")
    assert [len(image.answers) for image in few.images] == [5, 4, 1]
