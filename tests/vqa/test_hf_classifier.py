from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    PreTrainedTokenizerFast,
    ViltConfig,
    ViltForQuestionAnswering,
    ViltImageProcessor,
    ViltProcessor,
)

from ivqa.data.batch import ImageBatch
from ivqa.vqa.hf_classifier import HFClassifier

QUESTIONS = ["is it red", "what color is it", "how many are there", "is it", "what"]
ANSWERS = ["yes", "no", "red", "blue", "2", "3", "cat"]


class Pictures:
    """Four pictures of noise; counts how often one is opened."""

    def __init__(self) -> None:
        self.opened: list[int] = []

    def open(self, image_id: int) -> Image.Image:
        self.opened.append(image_id)
        noise = np.random.default_rng(image_id).integers(0, 255, (32, 32, 3), dtype=np.uint8)
        return Image.fromarray(noise)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = sorted({word for question in QUESTIONS for word in question.split()})
    table = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    tokenizer = Tokenizer(models.WordLevel(table, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]",
    )  # fmt: skip
    torch.manual_seed(0)
    config = ViltConfig(
        vocab_size=len(table), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=37, image_size=32, patch_size=16, max_position_embeddings=8,
        id2label=dict(enumerate(ANSWERS)), label2id={a: i for i, a in enumerate(ANSWERS)},
    )  # fmt: skip
    model = ViltForQuestionAnswering(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    path = tmp_path_factory.mktemp("vilt")
    model.save_pretrained(path)
    ViltProcessor(ViltImageProcessor(size={"shortest_edge": 32}), fast).save_pretrained(path)
    return path


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
    scores = answerer.log_scores(images, ["is it red " * 3, "is it red is it red"])
    assert answerer.truncated == 1
    torch.testing.assert_close(scores[0], scores[1], atol=1e-5, rtol=0)


def test_bad_input_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answerer = HFClassifier.load(str(folder))
    with pytest.raises(ValueError, match="answer 'green' is not among the 7 answers"):
        answerer.log_scores(_images(Pictures()), QUESTIONS, ["green"])
    with pytest.raises(ValueError, match="reads pixels, but the batch has none"):
        answerer.log_scores(_images(None), QUESTIONS)
    with pytest.raises(ValueError, match="1 questions for 5 images"):
        answerer.log_scores(_images(Pictures()), ["what"])
    with pytest.raises(ValueError, match=r"from the folder .* pass model.path=FOLDER"):
        HFClassifier.load(str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match=r"from the hub id \(is the network there\?\)"):
        HFClassifier.load("nobody/no-such-model")
