"""The VQA benchmark on a split of four questions with obvious accuracies."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

from ivqa.data import (
    BatchContents,
    VQADataModule,
    VQADataset,
    build_vocabularies,
    official_vizwiz,
)
from ivqa.data.batches.batch import ImageBatch, VQABatch
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Tokens
from ivqa.vqa import VQAModule
from ivqa.vqa.evaluation import VQABenchmark, write_answers
from ivqa.vqa.multiple_choice import choose_answers
from ivqa.vqa.network import VQANetwork
from ivqa.vqa.scores import score_answers

QUESTIONS = ["Is it red?", "What color is it?", "How many?", "What is it?"]
CHOICES = [["yes", "no", "2"], ["red", "blue", "green"], ["2", "3", "cat"], ["cat", "dog"]]
ANSWERS = ["no", "red", "3", "dog"]
LAYOUTS = [["_Find", "_Exist"], ["_Find", "_Describe"], ["_Find", "_Count"], ["_Find", "_Describe"]]


def _write(root: Path, *, choices: bool = True) -> VQADataset:
    asked = [
        {"image_id": 1, "question_id": at, "question": text}
        | ({"multiple_choices": CHOICES[at]} if choices else {})
        for at, text in enumerate(QUESTIONS)
    ]
    known = [
        {"image_id": 1, "question_id": at, "answers": [{"answer": answer}] * 10}
        for at, answer in enumerate(ANSWERS)
    ]
    for name, content in {
        "questions_val": {"questions": asked},
        "annotations_val": {"annotations": known},
        "layouts_val": dict(enumerate(LAYOUTS)),
    }.items():
        (root / f"{name}.json").write_text(json.dumps(content))
    return VQADataset(root, train="val", val="val")


def _datamodule(dataset: VQADataset) -> VQADataModule:
    words, answers = build_vocabularies(dataset.split("val"))
    return VQADataModule(
        dataset=dataset, features=None, question_vocabulary=words, answer_words=answers
    )


class Alphabetical:
    """Scores answers by alphabetical order, later ones higher; answers "red" to everything."""

    def __init__(self, closed: list[str] | None) -> None:
        self.answers = None if closed is None else AnswerVocabulary(closed)

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        assert len(images) == len(questions)
        known = answers or (self.answers.answers if self.answers else [])
        order = sorted(known)
        return torch.tensor([[float(order.index(answer)) for answer in known]] * len(questions))

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        return ["red"] * len(questions)

    def is_cut(self, questions: list[str]) -> list[bool]:
        return [len(text) > 12 for text in questions]


@pytest.mark.parametrize(
    ("closed", "chosen", "coverage"),
    [
        (None, ["yes", "red", "cat", "dog"], 1.0),
        (["no", "blue", "green", "2", "3"], ["no", "green", "3", ""], 6 / 11),
    ],
)
def test_the_most_probable_candidate_is_chosen(
    closed: list[str] | None, chosen: list[str], coverage: float, tmp_path: Path
) -> None:
    datamodule = _datamodule(_write(tmp_path))
    found = choose_answers(Alphabetical(closed), datamodule, "val", Console(), 3)
    assert found == (chosen, pytest.approx(coverage))


def test_the_benchmark_scores_both_tasks(tmp_path: Path) -> None:
    datamodule, model = _datamodule(_write(tmp_path)), Alphabetical(["no", "red", "yes"])
    metrics = VQABenchmark().run(model, datamodule, "val", tmp_path, "title", Console())
    assert metrics["vqa/accuracy"] == metrics["vqa/accuracy_shortcut"] == 0.25
    # "yes" before "no", then "red"; the other candidates are unknown.
    assert metrics["vqa/multiple_choice"] == 0.25
    assert metrics["vqa/multiple_choice_coverage"] == pytest.approx(3 / 11)
    assert metrics["vqa/truncated"] == 0.25
    for name, first in (("predictions", "red"), ("predictions_multiple_choice", "yes")):
        results = json.loads((tmp_path / f"{name}.json").read_text())
        assert results[0] == {"question_id": 0, "answer": first}


def test_the_accuracy_of_multiple_choice_is_over_questions_with_choices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last answer, "dog", is not known, so that the question would count as wrong.
    monkeypatch.setattr(f"{__name__}.CHOICES", [["no"], ["red", "blue"], ["2", "3"], []])
    datamodule, model = _datamodule(_write(tmp_path)), Alphabetical(["blue", "no", "red", "3"])
    metrics = VQABenchmark().run(model, datamodule, "val", tmp_path, "title", Console())
    assert metrics["vqa/multiple_choice"] == 1


def test_the_interval_of_the_accuracy_is_over_images(tmp_path: Path) -> None:
    """Of two images, with one and three questions, one is drawn twice in half of the resamples."""
    split = replace(_write(tmp_path).split("val"), image_ids=np.array([1, 2, 2, 2]))
    metrics = score_answers(split, ["no", "blue", "2", "cat"])
    assert metrics["vqa/accuracy"] == 0.25
    assert (metrics["vqa/accuracy_low"], metrics["vqa/accuracy_high"]) == (0, 1)
    metrics = score_answers(replace(split, image_ids=np.array([1, 1, 1, 1])), ["no"] * 4)
    assert metrics["vqa/accuracy_low"] == metrics["vqa/accuracy_high"] == 0.25


def test_accuracy_by_question_type_and_by_layout(tmp_path: Path) -> None:
    metrics = score_answers(_write(tmp_path).split("val"), ["no", "red", "2", "cat"])
    assert metrics["vqa/question_type/is_it"] == 1
    assert metrics["vqa/question_type/what_is"] == 0
    assert metrics["vqa/kind/exist"] == 1
    assert metrics["vqa/kind/describe"] == 0.5
    assert metrics["vqa/kind/count"] == 0


class Unsure(Alphabetical):
    """Answers "red" to everything, but believes "unanswerable" of the first question."""

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        if answers != ["unanswerable"]:
            raise AssertionError("asked for the scores of other answers")
        return torch.tensor([[0.75 if text == "What is it?" else 0.25] for text in questions]).log()


@pytest.mark.parametrize(("knows", "f1"), [(True, 1.0), (False, 0.0)])
def test_answerability_of_vizwiz_is_the_probability_of_an_answer(
    knows: bool, f1: float, tmp_path: Path
) -> None:
    records = [
        {"image": f"v_{at}.jpg", "question": text, "answers": [{"answer": "x"}] * 10,
         "answer_type": kind, "answerable": int(kind == "other")}
        for at, (text, kind) in enumerate(
            [("What is it?", "unanswerable"), ("Is it red?", "other"), ("How many?", "other")]
        )
    ]  # fmt: skip
    (tmp_path / "Annotations").mkdir()
    (tmp_path / "Annotations" / "val.json").write_text(json.dumps(records))
    datamodule = _datamodule(official_vizwiz(tmp_path, train="val"))
    model = Unsure(["red", "unanswerable"] if knows else ["red"])
    metrics = VQABenchmark(batch_size=2).run(model, datamodule, "val", tmp_path, "", Console())
    assert metrics["vizwiz/answerability_f1"] == f1
    # Without the answer all three are alike, of which one is unanswerable.
    precision = 1 if knows else 1 / 3
    assert metrics["vizwiz/answerability_average_precision"] == pytest.approx(precision)
    assert {"vqa/other", "vqa/unanswerable"} < metrics.keys()
    assert "vqa/accuracy_2015" not in metrics


class Planner(VQANetwork):
    """Always plans _Exist, which answers "no"; follows any layout, answers by its last module."""

    KINDS = ("_Exist", "_Describe", "_Count")

    def __init__(self, *, num_words: int, num_answers: int, feature_sizes: object) -> None:
        super().__init__()
        self.encode_layouts = lambda layouts: torch.tensor(
            [[self.KINDS.index(layout[-1])] for layout in layouts]
        )

    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        return torch.tensor([[1.0, 0, 0]]).repeat(len(question.ids), 1)

    def follow(self, batch: VQABatch) -> Tensor:
        assert batch.layout is not None
        return torch.eye(3)[batch.layout[:, 0]]

    def plan(self, question: Tokens) -> list[list[str]]:
        return [["_Find", "_Exist"]] * len(question.ids)


def test_a_module_network_is_also_scored_under_the_experts_layouts(tmp_path: Path) -> None:
    dataset = _write(tmp_path, choices=False)
    words, _ = build_vocabularies(dataset.split("val"))
    module = VQAModule(
        network=Planner,
        question_vocabulary=words,
        answers=AnswerVocabulary(["no", "red", "3"]),
        feature_sizes={},
    )
    datamodule = VQADataModule(
        dataset=dataset,
        features=None,
        question_vocabulary=words,
        answer_words=words,
        contents=BatchContents(encode_layouts=module.network.encode_layouts),
    )
    metrics = VQABenchmark().run(module, datamodule, "val", tmp_path, "title", Console())
    (tmp_path / "annotations_val.json").rename(tmp_path / "annotations_elsewhere.json")
    datamodule.dataset = VQADataset(tmp_path, train="val", val="val")
    unscored = VQABenchmark().run(module, datamodule, "val", tmp_path, "title", Console())
    assert unscored.keys() == {"vqa/questions_per_second", "vqa/truncated", "vqa/layouts"}
    assert unscored["vqa/layouts"] == 0.25
    assert metrics["vqa/accuracy"] == 0.25
    assert metrics["vqa/expert/accuracy"] == 0.75  # no, red, 3 and red: the last one is a dog
    assert metrics["vqa/expert/kind/describe"] == 0.5
    assert metrics["vqa/layouts"] == 0.25


def test_a_split_without_candidates_has_nothing_to_choose_from(tmp_path: Path) -> None:
    datamodule = _datamodule(_write(tmp_path, choices=False))
    model = Alphabetical(None)
    with pytest.raises(ValueError, match="split 'val' has no multiple_choices"):
        choose_answers(model, datamodule, "val", Console(), 3)
    metrics = VQABenchmark().run(model, datamodule, "val", tmp_path, "title", Console())
    assert "vqa/multiple_choice" not in metrics


def test_answers_that_are_none_are_counted_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = _write(tmp_path).split("val")
    given = ["no", "", "Error code: 429 - {}", "dog"]
    metrics = write_answers(split, given, tmp_path, Console(width=300))
    assert (metrics["vqa/failed"], metrics["vqa/accuracy"]) == (2, 1.0)  # of the other two
    assert "warning: 2 of 4 answers are none" in capsys.readouterr().out
    assert write_answers(split, ANSWERS, tmp_path, Console(quiet=True))["vqa/failed"] == 0
    with pytest.raises(UserError, match=r"none of the 4 answers in .* raise max_new_tokens"):
        write_answers(split, [" "] * 4, tmp_path, Console(quiet=True))
