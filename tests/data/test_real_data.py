"""Real data sets load completely: counts, joins and image files."""

from pathlib import Path

import pytest

from ivqa.data.dataset import VQADataset
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.normalisation import normalise_answer


@pytest.mark.parametrize(("split", "questions", "files"), [("train", 5999, 694), ("val", 796, 100)])
def test_daquar(shared_data: Path, split: str, questions: int, files: int):
    loaded = VQADataset(shared_data / "daquar", require_images=True).split(split)
    assert len(loaded) == questions
    images = loaded.require_images()
    assert len(images) == files
    assert images.open(int(loaded.image_ids[0])).size == (320, 240)
    assert all(len(given) == 1 for given in loaded.answers)


@pytest.mark.parametrize(("split", "questions"), [("train", 48061), ("val", 8977)])
def test_vqa_v2_subset(shared_data: Path, split: str, questions: int):
    loaded = VQADataset(shared_data / "vqa_v2_subset").split(split)
    assert len(loaded) == questions
    assert loaded.images is None
    assert all(len(given) == 10 for given in loaded.answers)
    share = loaded.answer_types.count("yes/no") / questions
    assert 0.2 < share < 0.5
    # Published main answers are normalised, except for rare ones such as "none".
    changed = sum(normalise_answer(answer) != answer for answer in set(loaded.main_answers))
    assert changed < 0.1 * len(set(loaded.main_answers))


def test_soft_targets_of_real_answers_peak_at_the_main_answer(shared_data: Path):
    val = VQADataset(shared_data / "vqa_v2_subset").split("val")
    answers = AnswerVocabulary.build(val.main_answers, 1000)
    soft = answers.soft_targets(val.answers)
    target = answers.encode(val.main_answers).numpy()
    known = (target >= 0).nonzero()[0]
    dense = soft.dense(known)
    best = dense[range(len(known)), target[known]]
    assert (best == dense.max(1).values).float().mean() > 0.98
