"""Training questions that are added to a data set without touching its files."""

from pathlib import Path
from typing import Any

import pytest

from ivqa.data import VQADataset
from ivqa.data.batches.columns import Entry
from ivqa.data.extended import ExtendedDataset, questions_of, write_questions
from ivqa.data.validation import DataError
from ivqa.scenes import oracle_of
from ivqa.store.files import write_json


@pytest.fixture
def dataset(tmp_path: Path) -> VQADataset:
    """Four training questions about images 5 and 6 with expert layouts, and one to validate."""
    asked = {"train": ["Is it?", "How many?", "What color?", "Is there?"], "val": ["Is that?"]}
    for split, texts in asked.items():
        questions = [
            {"question_id": 10 + row, "image_id": 5 + row // 2, "question": text}
            for row, text in enumerate(texts)
        ]
        annotations = [
            {"question_id": 10 + row, "image_id": 5 + row // 2, "answers": [{"answer": "yes"}] * 10}
            for row in range(len(texts))
        ]
        write_json(tmp_path / f"questions_{split}.json", {"questions": questions})
        write_json(tmp_path / f"annotations_{split}.json", {"annotations": annotations})
    write_json(tmp_path / "layouts_train.json", {str(10 + row): ["_Find"] for row in range(4)})
    return VQADataset(tmp_path)


def _extra(image_id: int, layout: list[str] | None = None) -> Any:
    entries = [
        Entry("1", 1, image_id, "Is there a moon?", ["no such thing"], layout=layout),
        Entry("2", 2, image_id, "How many suns?", ["2", "3", "3"], layout=layout),
    ]
    return questions_of(entries, "added")


def test_the_training_split_alone_grows(dataset: VQADataset) -> None:
    own = dataset.split("train")
    number, image_id = len(own), int(own.image_ids[3])
    extended = ExtendedDataset(dataset, _extra(image_id))
    split = extended.split("train")
    assert len(own) == number  # the base is unchanged
    assert len(split) == number + 2
    for column in ("questions", "main_answers", "answers", "answer_types", "question_types"):
        assert getattr(split, column)[:number] == getattr(own, column)
    assert split.questions[number:] == ["Is there a moon?", "How many suns?"]
    assert split.main_answers[number:] == ["no such thing", "3"]
    assert split.answer_types[number:] == ["other", "number"]
    assert split.image_ids[number:].tolist() == [image_id] * 2
    assert len(set(split.question_ids.tolist())) == number + 2
    assert split.question_ids[:number].tolist() == own.question_ids.tolist()
    assert extended.split("val") is dataset.split("val")
    assert split.images is own.images
    assert (extended.title, extended.has_images) == (dataset.title, dataset.has_images)
    assert (oracle_of(extended, "val") is None) == (oracle_of(dataset, "val") is None)


def test_layouts_are_kept_where_every_question_has_one(dataset: VQADataset) -> None:
    assert ExtendedDataset(dataset, _extra(5)).split("train").layouts is None
    split = ExtendedDataset(dataset, _extra(5, ["_Scene"])).split("train")
    assert split.layouts is not None
    found = [split.layouts[number] for number in split.question_ids.tolist()]
    assert found == [["_Find"]] * 4 + [["_Scene"]] * 2


def test_the_fingerprint_covers_the_added_questions(dataset: VQADataset) -> None:
    first, second = (int(image_id) for image_id in dataset.split("train").image_ids[[0, -1]])
    prints = {
        dataset.cache_key(),
        ExtendedDataset(dataset, _extra(first)).cache_key(),
        ExtendedDataset(dataset, _extra(second)).cache_key(),
    }
    assert len(prints) == 3
    again = ExtendedDataset(dataset, _extra(first)).cache_key()
    assert again in prints


def test_a_split_of_two_stages_is_refused(dataset: VQADataset) -> None:
    both = VQADataset(dataset.root, train="train", val="train")
    with pytest.raises(DataError, match="split 'train' serves as train and val"):
        ExtendedDataset(both, _extra(1))


def test_added_questions_are_written_in_vqa_format(tmp_path: Path) -> None:
    extra = _extra(7)
    write_questions(tmp_path, extra)
    read = VQADataset(tmp_path, train="added", val=None).split("train")
    for column in ("questions", "answers", "main_answers", "answer_types", "question_types"):
        assert getattr(read, column) == getattr(extra, column)
    assert read.image_ids.tolist() == [7, 7]


def test_a_question_without_words_is_refused() -> None:
    with pytest.raises(DataError, match="has no words"):
        questions_of([Entry("1", 1, 1, "?!", ["no"])], "added")
