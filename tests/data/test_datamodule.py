"""Batches agree with their split row by row."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ivqa.data.batches.batch_settings import BatchContents, BatchSettings
from ivqa.data.batches.datamodule import VQADataModule, build_vocabularies
from ivqa.data.dataset import VQADataset
from ivqa.data.split import VQASplit
from ivqa.data.validation import DataError
from ivqa.scenes import oracle_of
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.tokens import detokenise, tokenise


class ArrayFeatures:
    """Features whose values are the image ids; counts the rows that are read."""

    sizes = {"pooled": 2, "grid": 3}  # noqa: RUF012

    def __init__(self) -> None:
        self.gathered = 0
        self.ids: dict[str, np.ndarray] = {}

    def rows(self, split: str, image_ids: np.ndarray) -> np.ndarray:
        self.ids[split] = image_ids[::-1]  # rows are not in the order of the ids
        return np.arange(len(image_ids))[::-1]

    def gather(self, split: str, rows: np.ndarray, names: Any) -> dict[str, torch.Tensor]:
        self.gathered += len(rows)
        ids = torch.from_numpy(self.ids[split][rows].copy()).float()
        values = {"pooled": ids[:, None].repeat(1, 2), "grid": ids[:, None, None].repeat(1, 4, 3)}
        return {name: values[name] for name in names}


_CONTENTS = {field.name for field in fields(BatchContents)}


def settings(options: dict[str, Any]) -> dict[str, Any]:
    """Options by name, as `contents` and `batching` of a VQADataModule."""
    contents = {name: value for name, value in options.items() if name in _CONTENTS}
    batching = {name: value for name, value in options.items() if name not in _CONTENTS}
    return {"contents": BatchContents(**contents), "batching": BatchSettings(**batching)}


def module(
    root: Path, *, num_answers: int = 4, features: Any = None, **options: Any
) -> VQADataModule:
    dataset = VQADataset(root)
    train = dataset.split("train")
    answers = AnswerVocabulary.build(train.main_answers, size=num_answers)
    words = build_vocabularies(train)
    return VQADataModule(dataset, features, *words, answers, **settings(options))


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_agree_with_the_split_row_by_row(roots: Any, workers: int):
    data = module(
        roots.example(20),
        features=ArrayFeatures(),
        image_features=["pooled", "grid"],
        soft_targets=True,
        num_workers=workers,
    )
    split = data.dataset.split("val")
    seen = []
    for batch in data.batches("val", batch_size=6):
        rows = batch.rows.tolist()
        seen += rows
        assert data.question_vocabulary.decode(batch.question) == [
            detokenise(["how", "many", "dogs", "<unk>", "are", "here"]) for _ in rows
        ]
        ids = split.image_ids[rows]
        assert batch.images.ids[batch.images.index].tolist() == ids.tolist()
        assert len(batch.images.ids) == len(set(ids.tolist()))
        index = batch.images.index
        assert batch.images.feature("pooled")[index, 0].tolist() == ids.tolist()
        assert batch.images.feature("grid")[index].shape == (len(rows), 4, 3)
        assert batch.images.concepts is None
        for sample, row in enumerate(rows):
            main = split.main_answers[row]
            assert batch.target[sample] == data.answer_vocabulary.index(main)
            assert batch.answer.lengths[sample] == len(tokenise(main))
            assert ("yes/no", "number", "other")[batch.answer_type[sample]] == (
                split.answer_types[row]
            )
        assert batch.images.source.open(int(ids[0])).mode == "RGB"
    assert seen == list(range(20))


def test_batches_contain_answer_counts_on_request(roots: Any):
    root = roots.write(
        "train",
        [roots.question(i, 1) for i in range(3)],
        [
            roots.annotation(1, ["No", "no", "red car", "no"]),
            roots.annotation(0, ["yes"] * 7 + ["no"] * 3),
            roots.annotation(2, ["blue"] * 10),
        ],
    )
    data = module(root, answer_counts=True)
    data.answer_vocabulary = AnswerVocabulary(["yes", "no"])
    batch = data.batch_of("train", [1, 0, 2, 1])
    assert batch.answer_counts.tolist() == [[0, 3], [7, 3], [0, 0], [0, 3]]
    assert batch.to("cpu").answer_counts is batch.answer_counts
    assert module(root, soft_targets=True).batch_of("train", [0]).answer_counts is None


def test_soft_targets_agree_with_hard_ones(roots: Any):
    data = module(roots.example(20), soft_targets=True, num_answers=6)
    batch = data.batch_of("train", range(20))
    assert batch.soft_targets.shape == (20, 6)
    assert torch.equal(batch.soft_targets.argmax(1), batch.target)
    second = batch.soft_targets.topk(2).values[:, 1]
    torch.testing.assert_close(second, torch.full((20,), 0.9))  # 3 of 10 annotators
    assert data.batch_of("train", [0]).images.grid is None


def test_features_of_a_shared_image_are_read_once(roots: Any):
    features = ArrayFeatures()
    data = module(roots.example(9), features=features, image_features=["pooled"])
    data.batch_of("train", [0, 1, 2, 3, 0])
    distinct = len(set(data.dataset.split("train").image_ids[[0, 1, 2, 3]].tolist()))
    assert features.gathered == distinct < 5


def test_loaders_of_a_stage_and_of_its_split_agree(roots: Any):
    data = module(roots.example(9), eval_batch_size=4)
    rows = [batch.rows.tolist() for batch in data.loader("val")]
    assert rows == [batch.rows.tolist() for batch in data.val_dataloader()]
    assert rows == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert len(data.loader("train")) == 3
    assert oracle_of(data.dataset, "val") is None


def test_batch_of_keeps_order_and_repeats(roots: Any):
    data = module(roots.example(9))
    batch = data.batch_of("train", torch.tensor([5, 0, 5]))
    assert batch.rows.tolist() == [5, 0, 5]
    assert batch.images.index[0] == batch.images.index[2]
    with pytest.raises(ValueError, match="row 9 is outside split 'train' of 9 questions"):
        data.batch_of("train", [3, 9])
    with pytest.raises(ValueError, match="row -1 is outside"):
        data.batch_of("train", [-1])


def test_batches_are_padded_to_their_longest_question(roots: Any):
    texts = ["one two three four five six", "one two", "one"]
    root = roots.write(
        "train",
        [roots.question(i, 1, text) for i, text in enumerate(texts)],
        [roots.annotation(i, ["yes"]) for i in range(3)],
    )
    data = module(root, max_question_length=4)
    assert data.batch_of("train", [0, 1]).question.lengths.tolist() == [4, 2]
    assert data.batch_of("train", [1, 2]).question.ids.shape == (2, 2)


def test_questions_with_unknown_answers_can_be_dropped_from_training(roots: Any):
    data = module(roots.example(20), num_answers=2, drop_unknown_answers=True)
    kept = torch.cat([batch.rows for batch in data.train_dataloader()])
    targets = data.batch_of("train", kept).target
    assert 0 < len(kept) < 20
    assert (targets >= 0).all()
    data = module(roots.example(20), drop_unknown_answers=True)
    data.answer_vocabulary = AnswerVocabulary(["purple"])
    with pytest.raises(ValueError, match="no main answer of split 'train'"):
        data.train_dataloader()


def test_a_split_without_annotations_is_evaluated_but_not_trained_on(roots: Any):
    root = roots.example(6, ("train",))
    roots.write("val", [roots.question(1, 1)], None)
    data = module(root, soft_targets=True)
    batch = data.batch_of("val", [0])
    assert batch.target.tolist() == batch.answer_type.tolist() == [-1]
    assert batch.answer.lengths.tolist() == [0]
    assert batch.soft_targets.sum() == 0
    swapped = VQADataset(root, train="val", val=None)
    untrainable = VQADataModule(swapped, None, data.question_vocabulary, data.answer_words)
    with pytest.raises(DataError, match="has no annotations"):
        untrainable.train_dataloader()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"image_features": ["grid"]}, r"image_features=\['grid'\] need features"),
        ({"image_features": ["bad"], "features": ArrayFeatures()}, "'bad' is not among"),
        ({"batch_size": 0}, "batch sizes must be at least 1, not 0"),
    ],
)
def test_wrong_settings_are_refused_by_the_constructor(
    roots: Any, kwargs: dict[str, Any], message: str
):
    with pytest.raises(ValueError, match=message):
        module(roots.example(3), **kwargs)


def test_settings_that_need_an_answer_vocabulary_are_refused_without_one(roots: Any):
    dataset = VQADataset(roots.example(3))
    words = build_vocabularies(dataset.split("train"))
    for name in ("soft_targets", "answer_counts", "drop_unknown_answers"):
        with pytest.raises(ValueError, match=f"{name}=true needs an answer vocabulary"):
            VQADataModule(dataset, None, *words, **settings({name: True}))


def test_a_vocabulary_without_words_is_refused() -> None:
    """With it, all words of all questions would be the unknown one."""
    questions = ["Is it red?", "Is it a dog?"]
    split = VQASplit(
        "train", np.arange(2), np.arange(2), questions, [["yes"]] * 2, ["yes"] * 2,
        ["yes/no"] * 2, ["is it"] * 2,
    )  # fmt: skip
    assert set(build_vocabularies(split, 2)[0].words) == {"is", "it"}
    for count in (3, 1_000_000):
        message = rf"no word occurs {count} times in .* split 'train', .*; lower min_word_count"
        with pytest.raises(DataError, match=message):
            build_vocabularies(split, count)
