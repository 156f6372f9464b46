from pathlib import Path

import pytest
import torch

from ivqa.data.batches.batch import ImageBatch
from ivqa.text.answers import AnswerVocabulary
from ivqa.vqa.transformers.hf_blip import HFBlip
from tiny_transformers import ANSWERS, QUESTIONS, Pictures, tiny_blip

pytestmark = pytest.mark.usefixtures("on_cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_blip(tmp_path_factory.mktemp("blip"))


def _images(source: Pictures | None) -> ImageBatch:
    return ImageBatch(torch.tensor([7, 8, 9]), torch.tensor([0, 2, 1, 1, 0]), source=source)


def test_scores_equal_the_model_s_loss_of_each_pair(folder: Path) -> None:
    blip, source = HFBlip.load(str(folder), answer_batch_size=7), Pictures()
    scores = blip.log_scores(_images(source), QUESTIONS, ANSWERS)
    assert sorted(source.opened) == [7, 8, 9]
    tokenizer = blip.processor.tokenizer
    for row, (question, image_id) in enumerate(zip(QUESTIONS, [7, 9, 8, 8, 7], strict=True)):
        inputs = blip.processor(images=source.open(image_id), text=question, return_tensors="pt")
        for column, answer in enumerate(ANSWERS):
            # [DEC] a ... [SEP]; its loss is the mean over the answer and [SEP].
            labels = torch.tensor([[4, *tokenizer(answer, add_special_tokens=False).input_ids, 3]])
            with torch.no_grad():
                loss = blip.model(**inputs, labels=labels).loss
            expected = -loss * (labels.shape[1] - 1)
            torch.testing.assert_close(scores[row, column], expected, atol=1e-4, rtol=0)


def test_scores_do_not_depend_on_the_batch_size(folder: Path) -> None:
    whole, single = HFBlip.load(str(folder)), HFBlip.load(str(folder), batch_size=1)
    images = _images(Pictures())
    scores = [model.log_scores(images, QUESTIONS, ANSWERS) for model in (whole, single)]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=0)
    assert whole.answer(images, QUESTIONS) == single.answer(images, QUESTIONS)
    none = images.select(torch.tensor([], dtype=torch.int64))
    assert whole.log_scores(none, [], ANSWERS).shape == (0, len(ANSWERS))


def test_written_answers_are_those_of_generate(folder: Path) -> None:
    blip = HFBlip.load(str(folder), max_new_tokens=6)
    written = blip.answer(_images(Pictures()), QUESTIONS)
    inputs = blip.processor(images=Pictures().open(9), text=QUESTIONS[1], return_tensors="pt")
    tokens = blip.model.generate(**inputs, max_new_tokens=6)
    assert written[1] == blip.processor.decode(tokens[0], skip_special_tokens=True).strip()
    hostile = HFBlip.load(str(folder), max_new_tokens=6)
    for part in (hostile.model, hostile.model.text_decoder):
        part.generation_config.update(repetition_penalty=9.0, no_repeat_ngram_size=1, min_length=5)
    hostile = HFBlip(hostile.model, hostile.processor, max_new_tokens=6)
    assert hostile.answer(_images(Pictures()), QUESTIONS) == written


def test_a_closed_set_restricts_the_answers(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.txt"
    file.write_text("\n".join(ANSWERS) + "\n")
    closed = HFBlip.load(str(folder), candidates=str(file))
    assert closed.answers == AnswerVocabulary(ANSWERS)
    scores = closed.log_scores(_images(Pictures()), QUESTIONS)
    assert scores.shape == (5, len(ANSWERS))
    best = [ANSWERS[index] for index in scores.argmax(dim=1).tolist()]
    assert closed.answer(_images(Pictures()), QUESTIONS) == best
    same = HFBlip.load(str(folder), answers=AnswerVocabulary(ANSWERS))
    assert same.answer(_images(Pictures()), QUESTIONS) == best


def test_long_questions_are_cut_at_their_end(folder: Path) -> None:
    blip = HFBlip.load(str(folder))
    assert blip.max_question_tokens == 12
    long = ["is it red " * 4, "is it red is it red is it red is"]
    assert blip.is_cut([*long, "is it"]) == [True, False, False]
    scores = blip.log_scores(_images(Pictures()).select(torch.tensor([0, 0])), long, ["no"])
    torch.testing.assert_close(scores[0], scores[1], atol=1e-5, rtol=0)


def test_bad_input_is_named(folder: Path, tmp_path: Path) -> None:
    blip = HFBlip.load(str(folder))
    with pytest.raises(ValueError, match="answers in its own words: say which answers to score"):
        blip.log_scores(_images(Pictures()), QUESTIONS)
    with pytest.raises(ValueError, match="has more than 11 tokens"):
        blip.log_scores(_images(Pictures()), QUESTIONS, ["red " * 20])
    with pytest.raises(ValueError, match="reads pixels, but the batch has none"):
        blip.answer(_images(None), QUESTIONS)
    (tmp_path / "answers.json").write_text('{"yes": 1}')
    for name, message in (("answers.json", "must hold a list of texts"), ("no", "file not found")):
        with pytest.raises(ValueError, match=message):
            HFBlip.load(str(folder), candidates=str(tmp_path / name))
