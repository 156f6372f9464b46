from pathlib import Path

import pytest
import torch

from ivqa.data.batches.batch import ImageBatch
from ivqa.vqa.transformers.hf_classifier import HFClassifier
from tiny_transformers import QUESTIONS, Pictures, tiny_vilt

pytestmark = pytest.mark.usefixtures("on_cpu")

ANSWERS = ["yes", "no", "red", "blue", "2", "3", "cat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vilt(tmp_path_factory.mktemp("vilt"), ANSWERS)


def _images(source: Pictures | None) -> ImageBatch:
    return ImageBatch(torch.tensor([7, 8, 9]), torch.tensor([0, 2, 1, 1, 0]), source=source)


def test_batched_scores_equal_single_ones_and_images_are_opened_once(folder: Path) -> None:
    source = Pictures()
    answerer = HFClassifier.load(str(folder))
    assert answerer.answers.answers == ANSWERS
    scores = answerer.log_scores(_images(source), QUESTIONS)
    assert sorted(source.opened) == [7, 8, 9]
    torch.testing.assert_close(scores.exp().sum(dim=1), torch.ones(5))
    for row, question in enumerate(QUESTIONS):
        single = answerer.log_scores(_images(source).select(torch.tensor([row])), [question])
        torch.testing.assert_close(single[0], scores[row], atol=1e-4, rtol=0)
    best = [ANSWERS[index] for index in scores.argmax(dim=1).tolist()]
    assert answerer.answer(_images(source), QUESTIONS) == best
    some = answerer.log_scores(_images(source), QUESTIONS, ["red", "yes"])
    torch.testing.assert_close(some, scores[:, [2, 0]], atol=1e-5, rtol=0)


def test_pictures_count_and_the_side_of_the_padding_does_not(folder: Path) -> None:
    answerer = HFClassifier.load(str(folder))
    right = answerer.log_scores(_images(Pictures()), QUESTIONS)
    others = ImageBatch(torch.tensor([7, 8, 9]), torch.tensor([1, 0, 2, 2, 1]), source=Pictures())
    wrong = answerer.log_scores(others, QUESTIONS)
    assert ((right - wrong).abs().amax(dim=1) > 1e-3).all()
    answerer.processor.tokenizer.padding_side = "left"
    torch.testing.assert_close(
        answerer.log_scores(_images(Pictures()), QUESTIONS), right, atol=1e-4, rtol=0
    )


def test_sigmoid_scores_are_the_marginals_of_training(folder: Path) -> None:
    softmax = HFClassifier.load(str(folder)).log_scores(_images(Pictures()), QUESTIONS)
    sigmoid = HFClassifier.load(str(folder), score="sigmoid", batch_size=2).log_scores(
        _images(Pictures()), QUESTIONS
    )
    assert torch.equal(softmax.argsort(dim=1), sigmoid.argsort(dim=1))
    assert (sigmoid < 0).all()
    # Both come from the same logits: log sigmoid(x) - log sigmoid(-x) = x.
    logits = sigmoid - torch.log1p(-sigmoid.exp())
    torch.testing.assert_close(logits.log_softmax(dim=1), softmax, atol=1e-3, rtol=0)


def test_long_questions_are_cut_and_counted(folder: Path) -> None:
    answerer = HFClassifier.load(str(folder))
    assert answerer.max_question_tokens == 8
    images = _images(Pictures()).select(torch.tensor([0, 0]))
    long = ["is it red " * 3, "is it red is it red"]
    assert answerer.is_cut([*long, "is it"]) == [True, False, False]
    scores = answerer.log_scores(images, long)
    torch.testing.assert_close(scores[0], scores[1], atol=1e-5, rtol=0)


def test_bad_input_is_named(folder: Path) -> None:
    answerer = HFClassifier.load(str(folder))
    with pytest.raises(ValueError, match="answer 'green' is not among the 7 answers"):
        answerer.log_scores(_images(Pictures()), QUESTIONS, ["green"])
    with pytest.raises(ValueError, match="reads pixels, but the batch has none"):
        answerer.log_scores(_images(None), QUESTIONS)
    with pytest.raises(ValueError, match="1 questions for 5 images"):
        answerer.log_scores(_images(Pictures()), ["what"])
