"""callbacks=robustness on four questions whose figures are computed by hand."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from ivqa.data import DataError, VQADataModule, VQADataset, build_vocabularies
from ivqa.data.batches.batch import ImageBatch
from ivqa.errors import UserError
from ivqa.metrics import RScore
from ivqa.robustness import RobustnessCallback
from ivqa.robustness.comparison import common_questions
from ivqa.robustness.records import NoiseRecords
from ivqa.text.answers import AnswerVocabulary

QUESTIONS = ["Is it red?", "How many?", "What color is it?", "What is it?"]
HUMAN = [
    ["yes"] * 2 + ["no"] * 8,
    ["2"] + ["3"] * 9,
    ["red"] * 3 + ["blue"] * 7,
    ["cat"] * 8 + ["blue"] * 2,
]
CHOICES = [["no", "maybe"], ["2", "3"], ["red", "blue"], []]
# The answers that the model prefers to each question, without noise and at level 1.
CLEAN = [["yes", "no"], ["2", "3"], ["red", "blue"], ["cat", "dog"]]
NOISY = [["yes", "no"], ["3", "2"], ["dog", "blue"], ["dog", "cat"]]
# Accuracies of its first preferences: yes, 2, red, cat, and yes, 3, dog, dog under noise; and of
# its preferred candidates: no, 2, red, and no, 3, blue.
OPEN = {
    "official": ([0.6, 0.3, 0.9, 1], [0.6, 1, 0, 0]),
    "paper": ([2 / 3, 1 / 3, 1, 1], [2 / 3, 1, 0, 0]),
}
CHOSEN = {"official": ([1, 0.3, 0.9], [1, 1, 1]), "paper": ([1, 1 / 3, 1], [1, 1, 1])}
# The majority answers of the types: no, 3, and blue of blue and cat.
BLIND = {"official": (1 + 1 + 1 + 0.6) / 4, "paper": (1 + 1 + 1 + 2 / 3) / 4}


class Why:
    """Appends a question of ten characters."""

    levels = 1

    def disturbed(self, questions: Sequence[str], training: Sequence[str]) -> list[list[str]]:
        return [[f"{text} Why is it?" for text in questions]]


class Scripted:
    """Answers as `CLEAN` and `NOISY` say, and reads 22 characters."""

    answers = AnswerVocabulary(["yes", "no", "2", "3", "red", "blue", "cat", "dog"])

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        scores = torch.full((len(questions), len(self.answers)), -10.0)
        for row, text in enumerate(questions):
            wanted = NOISY if text.endswith("Why is it?") else CLEAN
            (at,) = (at for at, start in enumerate(QUESTIONS) if text.startswith(start))
            scores[row, self.answers.encode(wanted[at])] = torch.tensor([-1.0, -2.0])
        return scores

    def answer(self, images: ImageBatch, questions: list[str]) -> list[str]:
        best = self.log_scores(images, questions).argmax(dim=1).tolist()
        return [self.answers.answers[index] for index in best]

    def is_cut(self, questions: Sequence[str]) -> list[bool]:
        return [len(text) > 22 for text in questions]


class Paid(Scripted):
    """Each question to it costs."""

    def usage(self) -> dict[str, float]:
        return {}


@pytest.fixture
def data(tmp_path: Path) -> VQADataModule:
    asked = [
        {"image_id": at, "question_id": at, "question": text, "multiple_choices": CHOICES[at]}
        for at, text in enumerate(QUESTIONS)
    ]
    known = [
        {"image_id": at, "question_id": at, "answers": [{"answer": text} for text in given]}
        for at, given in enumerate(HUMAN)
    ]
    (tmp_path / "questions_val.json").write_text(json.dumps({"questions": asked}))
    (tmp_path / "annotations_val.json").write_text(json.dumps({"annotations": known}))
    dataset = VQADataset(tmp_path, train="val", val="val")
    words, answers = build_vocabularies(dataset.split("val"))
    return VQADataModule(
        dataset=dataset, features=None, question_vocabulary=words, answer_words=answers
    )


@pytest.mark.parametrize("accuracy", ["official", "paper"])
def test_all_figures_are_of_the_chosen_accuracy(
    accuracy: str, data: VQADataModule, tmp_path: Path
) -> None:
    r_score = RScore(tolerance=0, limit=1, accuracy=accuracy)  # type: ignore[arg-type]
    callback = RobustnessCallback(Why(), r_score=r_score, batch_size=3)
    metrics = callback.metrics(Scripted(), data, "val", tmp_path)
    for level, own in enumerate(OPEN[accuracy]):
        found = {
            name: metrics[f"robustness/partition_{level}/{name}"]
            for name in ("accuracy", "yes_no", "number", "other", "multiple_choice")
        }
        assert found == pytest.approx(
            {
                "accuracy": sum(own) / 4,
                "yes_no": own[0],
                "number": own[1],
                "other": (own[2] + own[3]) / 2,
                "multiple_choice": sum(CHOSEN[accuracy][level]) / 3,
            }
        )
    clean, noisy = (sum(own) / 4 for own in OPEN[accuracy])
    assert metrics["robustness/r_score"] == pytest.approx(1 - (clean - noisy) ** 0.5)
    assert metrics["robustness/acc_diff"] == pytest.approx(clean - noisy)
    assert metrics["robustness/blind_accuracy"] == pytest.approx(BLIND[accuracy])
    # Each question has its own image, so a resample that draws one image four times is the least.
    low = metrics["robustness/partition_0/accuracy_low"]
    assert min(OPEN[accuracy][0]) <= low < clean
    # Lengths 10, 9, 17 and 11, and 11 characters more under noise: only the third exceeds 22.
    assert metrics["robustness/partition_0/truncated"] == 0
    assert metrics["robustness/partition_1/truncated"] == metrics["robustness/truncated"] == 0.25

    read = NoiseRecords.read(tmp_path)
    assert read.accuracy == accuracy
    assert read.choices == [["no", "2", "red", ""], ["no", "3", "blue", ""]]
    figures = {
        f"robustness/{name}": value
        for name, value in read.curve(r_score).metrics(callback.resamples, callback.seed).items()
    }
    assert figures == metrics


def test_choices_are_those_of_the_questions_that_are_asked(data: VQADataModule) -> None:
    records, _ = RobustnessCallback(Why(), num_questions=2, seed=3).measure(Scripted(), data, "val")
    rows = records.question_ids.tolist()
    assert len(rows) == 2
    known = [{0: "no", 1: "2", 2: "red", 3: ""}, {0: "no", 1: "3", 2: "blue", 3: ""}]
    assert records.choices == [[level[row] for row in rows] for level in known]


def test_a_selection_has_all_columns_of_its_questions(data: VQADataModule) -> None:
    records, _ = RobustnessCallback(Why()).measure(Scripted(), data, "val")
    figures = records.select(np.array([2, 0])).curve().metrics()
    assert figures["partition_1/truncated"] == 0.5
    assert figures["partition_0/multiple_choice"] == pytest.approx((0.9 + 1) / 2)
    assert figures["partition_0/accuracy"] == pytest.approx((0.9 + 0.6) / 2)


def test_files_of_earlier_versions_are_read(data: VQADataModule, tmp_path: Path) -> None:
    """They have no columns of cut questions and choices, and official accuracies."""
    records, _ = RobustnessCallback(Why()).measure(Scripted(), data, "val")
    file = records.write(tmp_path)
    table = pq.read_table(file).drop_columns(["truncated", "choice", "choice_accuracy"])
    pq.write_table(table.replace_schema_metadata(None), file)
    figures = NoiseRecords.read(tmp_path).curve().metrics()
    assert figures["partition_0/accuracy"] == pytest.approx(2.8 / 4)
    assert not {name for name in figures if "truncated" in name or "multiple" in name}


def test_a_metered_model_is_not_asked_to_choose(data: VQADataModule) -> None:
    metrics = RobustnessCallback(Why()).metrics(Paid(), data, "val")
    assert metrics["robustness/partition_1/accuracy"] == pytest.approx(0.4)
    assert "robustness/partition_1/multiple_choice" not in metrics


def test_accuracies_are_not_mixed(data: VQADataModule, tmp_path: Path) -> None:
    paper = RScore(accuracy="paper")
    official, _ = RobustnessCallback(Why()).measure(Scripted(), data, "val")
    other, _ = RobustnessCallback(Why(), r_score=paper).measure(Scripted(), data, "val")
    with pytest.raises(UserError, match="accuracy=official and another one paper"):
        common_questions([official, other])
    with pytest.raises(UserError, match=r"scored with r_score\.accuracy=official, not paper"):
        official.curve(paper)


def test_damaged_columns_of_records_are_refused(data: VQADataModule, tmp_path: Path) -> None:
    records, _ = RobustnessCallback(Why()).measure(Scripted(), data, "val")
    assert records.choice_accuracies is not None
    records.choice_accuracies[0, 0] = 2
    records.write(tmp_path)
    with pytest.raises(DataError, match="an accuracy is not in"):
        NoiseRecords.read(tmp_path)
    assert np.isnan(records.choice_accuracies[:, 3]).all()
