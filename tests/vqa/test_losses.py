"""Training losses for disagreeing annotators against numbers computed by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ivqa.data import BatchContents, VQADataModule, VQADataset, build_vocabularies
from ivqa.data.batches.batch import ImageBatch
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.vocabulary import Tokens
from ivqa.vqa import VQAModule
from ivqa.vqa.network import VQANetwork

A = ["yes", "no", "2"]
LOGITS = [[0.5, -1.0, 2.0], [1.5, 0.0, -0.5], [0.0, 1.0, 0.25]]
# Three questions with ten answers each: all in A; "maybe" and "unsure" outside A; "Two.", which
# normalises to "2".
GIVEN = [
    ["yes"] * 7 + ["no"] * 3,
    ["yes"] * 6 + ["no"] * 2 + ["maybe", "unsure"],
    ["Two."] * 2 + ["2"] * 3 + ["no"] * 5,
]
COUNTS = [[7, 3, 0], [6, 2, 0], [0, 5, 5]]
SHARES = [[0.7, 0.3, 0.0], [0.75, 0.25, 0.0], [0.0, 0.5, 0.5]]
ACCURACIES = [[1.0, 0.9, 0.0], [1.0, 0.6, 0.0], [0.0, 1.0, 1.0]]


class Fixed(VQANetwork):
    """The logits of LOGITS, row by row."""

    def __init__(self, *, num_words: int, num_answers: int, feature_sizes: object) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(LOGITS))

    def forward(self, images: ImageBatch, question: Tokens) -> Tensor:
        return self.logits[: len(question.ids)]


def _dataset(root: Path) -> VQADataset:
    questions = [{"image_id": 1, "question_id": at, "question": "Is it?"} for at in range(3)]
    annotations = [
        {"question_id": at, "answers": [{"answer": answer} for answer in given]}
        for at, given in enumerate(GIVEN)
    ]
    (root / "questions_train.json").write_text(json.dumps({"questions": questions}))
    (root / "annotations_train.json").write_text(json.dumps({"annotations": annotations}))
    return VQADataset(root, train="train", val="train")


def _trained(root: Path, targets: Any) -> tuple[VQAModule, Any]:
    dataset = _dataset(root)
    words, answer_words = build_vocabularies(dataset.split("train"))
    answers = AnswerVocabulary(A)
    module = VQAModule(
        network=Fixed,
        question_vocabulary=words,
        answers=answers,
        feature_sizes={},
        targets=targets,
    )
    module.log_dict = lambda *args, **kwargs: None  # type: ignore[method-assign]
    data = VQADataModule(
        dataset,
        None,
        words,
        answer_words,
        answers,
        contents=BatchContents(soft_targets=True, answer_counts=module.learns_counts),
    )
    return module, data.batch_of("train", [0, 1, 2])


def _log_softmax(logits: list[float]) -> list[float]:
    total = math.log(sum(math.exp(value) for value in logits))
    return [value - total for value in logits]


def _cross_entropy(row: int) -> float:
    return -sum(
        share * log_p for share, log_p in zip(SHARES[row], _log_softmax(LOGITS[row]), strict=True)
    )


def _binary(row: int) -> float:
    loss = 0.0
    for logit, accuracy in zip(LOGITS[row], ACCURACIES[row], strict=True):
        p = 1 / (1 + len(LOGITS[row]) * math.exp(-logit))  # 1 / (|A| + 1) at a logit of 0
        loss -= accuracy * math.log(p) + (1 - accuracy) * math.log(1 - p)
    return loss


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        ("main", [-_log_softmax(LOGITS[row])[best] for row, best in enumerate([0, 0, 1])]),
        ("annotators", [_cross_entropy(row) for row in range(3)]),
        ("accuracies", [_binary(row) for row in range(3)]),
    ],
)
def test_the_loss_of_three_questions(targets: str, expected: list[float], tmp_path: Path) -> None:
    module, batch = _trained(tmp_path, targets)
    loss = module.training_step(batch, 0)
    assert loss.item() == pytest.approx(sum(expected) / 3, rel=1e-5)


def test_seven_yes_and_three_no_are_learned_as_their_shares(
    tmp_path: Path,
) -> None:
    """The gradient is softmax - share, so the minimum is where probabilities equal the shares."""
    module, batch = _trained(tmp_path, "annotators")
    assert batch.answer_counts.tolist() == COUNTS
    module.training_step(batch, 0).backward()
    gradient = module.network.logits.grad
    assert gradient is not None
    learned = torch.tensor(LOGITS).softmax(dim=1) - 3 * gradient
    torch.testing.assert_close(learned, torch.tensor(SHARES))


def test_the_gradient_of_accuracies_is_that_of_one_sigmoid_an_answer(tmp_path: Path) -> None:
    module, batch = _trained(tmp_path, "accuracies")
    assert batch.answer_counts is None
    module.training_step(batch, 0).backward()
    gradient = module.network.logits.grad
    assert gradient is not None
    learned = (torch.tensor(LOGITS) - math.log(len(LOGITS[0]))).sigmoid() - 3 * gradient
    torch.testing.assert_close(learned, torch.tensor(ACCURACIES))


def test_a_question_without_an_answer_in_the_vocabulary_has_no_loss(tmp_path: Path) -> None:
    module, batch = _trained(tmp_path, "annotators")
    batch.answer_counts[1] = 0
    loss = module.training_step(batch, 0)
    loss.backward()
    assert loss.item() == pytest.approx((_cross_entropy(0) + _cross_entropy(2)) / 3, rel=1e-5)
    assert module.network.logits.grad is not None
    assert module.network.logits.grad[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("targets", "lacking"), [("annotators", "answer_counts"), ("accuracies", "soft_targets")]
)
def test_a_batch_without_the_targets_is_refused(targets: str, lacking: str, tmp_path: Path) -> None:
    module, batch = _trained(tmp_path, targets)
    object.__setattr__(batch, lacking, None)
    with pytest.raises(ValueError, match=f"carries no {lacking}; .* with {lacking}=True"):
        module.training_step(batch, 0)
