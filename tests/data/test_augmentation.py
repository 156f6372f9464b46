"""Augmentation of training questions: wordings are drawn by seed and epoch."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from ivqa.data import (
    BatchContents,
    BatchSettings,
    VQADataModule,
    VQADataset,
    VQASplit,
    build_vocabularies,
)
from ivqa.data.batches.augmentation import AugmentedBatches, AugmentedSplit, SubstitutedSplit
from ivqa.data.batches.batch import VQABatch
from ivqa.data.batches.columns import Entry
from ivqa.data.extended import questions_of
from ivqa.data.loading import ShuffledBatches
from ivqa.errors import UserError
from ivqa.text.answers import AnswerVocabulary
from ivqa.text.tokens import tokenise
from ivqa.text.vocabulary import Vocabulary

NUMBER = 18


@dataclass
class Repeating:
    """Wording v appends the word "here" v times; counts the calls."""

    probability: float = 0.5
    calls: int = 0

    def variants(self, questions: Sequence[str]) -> list[list[str]]:
        self.calls += 1
        return [[question + " here" * v for question in questions] for v in (1, 2, 3)]


def _data(root: Path, augmentation: Any, seed: int = 5, **options: Any) -> VQADataModule:
    dataset = VQADataset(root)
    words = build_vocabularies(dataset.split("train"))
    batching = BatchSettings(batch_size=4, seed=seed, **options)
    return VQADataModule(dataset, None, *words, batching=batching, augmentation=augmentation)


def _epoch(data: VQADataModule, epoch: int) -> dict[int, str]:
    """The wording of each row in an epoch."""
    loader = data.train_dataloader()
    loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
    read: dict[int, str] = {}
    for batch in loader:
        texts = data.question_vocabulary.decode(batch.question)
        read |= dict(zip(batch.rows.tolist(), texts, strict=True))
    return read


@pytest.mark.parametrize("workers", [0, 2])
def test_every_epoch_reads_every_question_once_in_a_drawn_wording(roots: Any, workers: int) -> None:
    augmentation = Repeating()
    data = _data(roots.example(NUMBER), augmentation, num_workers=workers)
    questions = data.dataset.split("train").questions
    epochs = [_epoch(data, epoch) for epoch in range(3)]
    for read in epochs:
        assert sorted(read) == list(range(NUMBER))
        for row, text in read.items():
            words, own = tokenise(text), tokenise(questions[row])
            assert words[: len(own)] == own
            assert words[len(own) :] == ["here"] * (len(words) - len(own))
            assert len(words) - len(own) <= 3
    assert epochs[0] != epochs[1] != epochs[2]
    assert augmentation.calls == 1  # all wordings are encoded once
    again = _data(data.dataset.root, Repeating())
    assert [_epoch(again, epoch) for epoch in (2, 0)] == [epochs[2], epochs[0]]
    other = _data(data.dataset.root, Repeating(), seed=6)
    assert _epoch(other, 0) != epochs[0]


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_wordings_are_drawn_uniformly_with_the_given_probability(
    roots: Any, probability: float
) -> None:
    data = _data(roots.example(4000, images=False), None)
    split = AugmentedSplit.build(
        data.encoded("train"), Repeating(probability), data.question_vocabulary, 26
    )
    wordings = np.concatenate([split.draw(0, epoch) // 4000 for epoch in range(10)])
    shares = np.bincount(wordings, minlength=4) / len(wordings)
    assert shares[0] == pytest.approx(1 - probability, abs=0.01)
    np.testing.assert_allclose(shares[1:], probability / 3, atol=0.01)
    np.testing.assert_array_equal(split.draw(0, 1) % 4000, np.arange(4000))


def test_only_the_questions_of_training_change(roots: Any) -> None:
    root = roots.example(NUMBER)
    plain, noisy = _data(root, None), _data(root, Repeating(1.0))
    for ours, theirs in zip(plain.val_dataloader(), noisy.val_dataloader(), strict=True):
        assert torch.equal(ours.question.ids, theirs.question.ids)
    for ours, theirs in zip(plain.train_dataloader(), noisy.train_dataloader(), strict=True):
        assert torch.equal(ours.rows, theirs.rows)
        assert torch.equal(ours.answer.ids, theirs.answer.ids)
        assert torch.equal(ours.images.ids, theirs.images.ids)
        assert (theirs.question.lengths > ours.question.lengths).all()
        assert theirs.question.ids.dtype == torch.int64


def test_wordings_are_cut_like_questions(roots: Any) -> None:
    data = _data(roots.example(NUMBER), Repeating(1.0), max_question_length=6)
    batches: list[VQABatch] = list(data.train_dataloader())
    assert all(batch.question.lengths.tolist() == [6] * len(batch) for batch in batches)


def test_an_interrupted_epoch_resumes_with_the_same_wordings(roots: Any) -> None:
    data = _data(roots.example(NUMBER), Repeating())
    split = AugmentedSplit.build(data.encoded("train"), Repeating(), data.question_vocabulary, None)
    rows = np.arange(NUMBER)
    whole = AugmentedBatches(split, rows, 4, seed=3)
    whole.set_epoch(2)
    resumed = AugmentedBatches(split, rows, 4, seed=3)
    resumed.resume(2, 3)
    remaining = [batch.tolist() for batch in resumed]
    assert remaining == [batch.tolist() for batch in whole][3:]
    order = ShuffledBatches(rows, 4, seed=3)
    order.set_epoch(2)
    assert [(np.array(batch) % NUMBER).tolist() for batch in whole] == [b.tolist() for b in order]


@pytest.mark.parametrize(
    ("probability", "wordings", "message"),
    [(1.5, 1, r"probability must be in \[0, 1\], not 1.5"), (0.5, 0, "at least one other wording")],
)
def test_invalid_augmentations_are_refused(
    roots: Any, probability: float, wordings: int, message: str
) -> None:
    class Few(Repeating):
        def variants(self, questions: Sequence[str]) -> list[list[str]]:
            return super().variants(questions)[:wordings]

    data = _data(roots.example(NUMBER), Few(probability))
    with pytest.raises(ValueError, match=message):
        data.train_dataloader()


class Further:
    """Question r has r % 3 further ones, "r further 0" and so on, each with its own answer."""

    probability = 1.0
    answers: ClassVar[list[str]] = ["yes", "2"]

    def further(self, split: VQASplit) -> tuple[VQASplit, Any]:
        rows = [row for row in range(len(split)) for _ in range(row % 3)][::-1]  # in any order
        entries, asked = [], Counter[int]()
        for number, row in enumerate(rows):
            text, answer = f"{row} further {asked[row]}", self.answers[asked[row]]
            entries.append(Entry(text, number, int(split.image_ids[row]), text, [answer] * 3))
            asked[row] += 1
        return questions_of(entries, split.name), np.array(rows)


def _answered(root: Path, known: list[str], augmentation: Any = None, **options: Any) -> Any:
    dataset = VQADataset(root)
    train = dataset.split("train")
    words = Vocabulary.build([*train.questions, "further", *map(str, range(NUMBER))])
    return VQADataModule(
        dataset,
        None,
        words,
        Vocabulary.build([*train.main_answers, *known]),
        AnswerVocabulary(known),
        contents=BatchContents(soft_targets=True),
        batching=BatchSettings(batch_size=4, seed=5, **options),
        augmentation=augmentation or Further(),
    )


def test_further_questions_replace_their_own_with_their_answers(roots: Any) -> None:
    data = _answered(roots.example(NUMBER), ["yes", "no", "2"])
    split = data.dataset.split("train")
    seen = Counter[tuple[int, str]]()
    for epoch in range(6):
        loader = data.train_dataloader()
        loader.sampler.set_epoch(epoch)
        rows = list[int]()
        for batch in loader:
            texts = data.question_vocabulary.decode(batch.question)
            answers = data.answer_words.decode(batch.answer)
            for at, row in enumerate(batch.rows.tolist()):
                rows.append(row)
                assert int(batch.images.ids[batch.images.index[at]]) == split.image_ids[row]
                if row % 3 == 0:  # nothing replaces it
                    assert tokenise(texts[at]) == tokenise(split.questions[row])
                    continue
                number = int(tokenise(texts[at])[-1])
                assert tokenise(texts[at]) == [str(row), "further", str(number)]
                assert tokenise(answers[at]) == [Further.answers[number]]
                best = data.answer_vocabulary.index(Further.answers[number])
                assert (batch.target[at], batch.soft_targets[at].argmax()) == (best, best)
                seen[row, texts[at]] += 1
        assert sorted(rows) == list(range(NUMBER))
    assert len([text for row, text in seen if row == 2]) == 2


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_further_questions_are_drawn_uniformly_with_the_given_probability(
    roots: Any, probability: float
) -> None:
    augmentation = Further()
    augmentation.probability = probability
    data = _answered(roots.example(3000, images=False), ["yes", "no", "2"], augmentation)
    split = SubstitutedSplit.build(data.encoded("train"), augmentation, data._encode, True)
    drawn = np.stack([split.draw(0, epoch) for epoch in range(10)])
    np.testing.assert_array_equal(split.draw(0, 1), drawn[1])
    own = drawn == np.arange(3000)
    assert own[:, ::3].all()
    assert own[:, 1::3].mean() == pytest.approx(1 - probability, abs=0.02)
    texts = [split.encoded.split.questions[row] for row in drawn[:, 2::3][~own[:, 2::3]]]
    assert len(texts) == pytest.approx(10_000 * probability, abs=200)
    first = sum(text.endswith("0") for text in texts)
    assert first == pytest.approx(len(texts) / 2, abs=200)


def test_further_questions_with_unknown_answers_are_left_out_and_counted(
    roots: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = _answered(roots.example(NUMBER), ["yes", "no"], drop_unknown_answers=True)
    texts = [text for epoch in range(4) for text in _epoch(data, epoch).values()]
    assert any("further 0" in text for text in texts)
    assert not any("further 1" in text for text in texts)
    # Of 18 questions, 6 have one further question and 6 have two, the second one with answer "2".
    printed = " ".join(capsys.readouterr().out.split())
    assert "12 further questions for 12 of the 18 training questions; 6 are left out" in printed
    assert all((batch.target >= 0).all() for batch in data.train_dataloader())


def test_a_model_of_layouts_refuses_questions_without_one(roots: Any) -> None:
    data = _answered(roots.example(NUMBER), ["yes", "no"])
    data._encoded["train"] = replace(data.encoded("train"), layout=torch.zeros(NUMBER, 1))
    with pytest.raises(UserError, match=r"expert layouts.*use augment=none, or a model without"):
        data.train_dataloader()
