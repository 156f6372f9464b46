"""What is taught without labels: implied questions, and the most probable world of the answers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from ivqa.consistency import (
    AnsweredQuestion,
    ConsistencyRecords,
    ImageConsistency,
    ImplicationAugmentation,
    implied_beliefs,
    typed_by_consistency,
)
from ivqa.consistency.records import JudgedAnswer
from ivqa.data import DataError, VQADataset, VQASplit
from ivqa.data.batches.columns import Entry
from ivqa.diagnosis import Belief


def _split(folder: Path, asked: list[tuple[int, str, str]]) -> VQASplit:
    """Questions whose main answer eight annotators gave; two others said "maybe"."""
    questions = [
        {"question_id": 10 + at, "image_id": image, "question": text}
        for at, (image, text, _) in enumerate(asked)
    ]
    annotations = [
        {
            "question_id": 10 + at,
            "answers": [{"answer": answer}] * 8 + [{"answer": "maybe"}] * 2,
        }
        for at, (*_, answer) in enumerate(asked)
    ]
    (folder / "questions_train.json").write_text(json.dumps({"questions": questions}))
    (folder / "annotations_train.json").write_text(json.dumps({"annotations": annotations}))
    return VQADataset(folder, train="train", val=None).split("train")


def test_certain_implications_of_the_main_answers_are_taught(tmp_path: Path) -> None:
    asked = [
        (3, "What color is the cup?", "red"),
        (3, "Why is it sad?", "bored"),
        (7, "How many dogs are there?", "0"),
        (8, "What color is the cup?", "red"),
        (9, "Is the dog left of the car?", "no"),
    ]
    further, rows = ImplicationAugmentation().further(_split(tmp_path, asked))
    found = [
        (row, image, question, answers)
        for row, image, question, answers in zip(
            rows.tolist(),
            further.image_ids.tolist(),
            further.questions,
            further.answers,
            strict=True,
        )
    ]
    # "Is the cup blue?" no is not certain: a striped cup may be red and blue.
    cup = ["Is there a cup?", "Is there a red cup?", "Is the cup red?"]
    assert [one for one in found if one[0] in (0, 3)] == [
        (row, image, text, ["yes"]) for row, image in ((0, 3), (3, 8)) for text in cup
    ]
    assert not any(row == 1 for row, *_ in found)
    assert (2, 7, "Are there any dogs?", ["no"]) in found
    # The dog and the car stand, whether the answer is yes or no.
    assert {(text, *given) for row, _, text, given in found if row == 4} == {
        ("Is there a dog?", "yes"),
        ("Is there a car?", "yes"),
    }


def test_as_many_are_kept_with_yes_as_with_no(tmp_path: Path) -> None:
    asked = [
        *[(image, "What color is the cup?", "red") for image in range(9)],
        *[(image, "How many dogs are there?", "0") for image in range(2)],
        *[(image, "Is there a dog?", "no") for image in range(2)],
    ]
    split = _split(tmp_path, asked)
    (every, _), (kept, rows) = (
        ImplicationAugmentation(balanced=balanced).further(split) for balanced in (False, True)
    )
    counts = Counter(every.main_answers)
    assert counts["yes"] == 27 > counts["no"] > 3
    assert Counter(kept.main_answers) == {**counts, "yes": counts["no"]}
    assert rows.tolist() == sorted(rows)
    assert [split.image_ids[row] for row in rows] == kept.image_ids.tolist()
    pairs = Counter(zip(every.image_ids.tolist(), every.questions, strict=True))
    assert Counter(zip(kept.image_ids.tolist(), kept.questions, strict=True)) <= pairs
    assert sum(row < 9 for row in set(rows.tolist())) > 2  # drawn, not the first


def test_without_english_there_is_nothing_to_teach(tmp_path: Path) -> None:
    split = _split(tmp_path, [(1, "Warum?", "darum")])
    with pytest.raises(DataError, match="nothing follows from the answers of split 'train'"):
        ImplicationAugmentation().further(split)


# Image, question, answer, whether it is suspected, probability that it is right.
ANSWERS = [
    (1, "Is there a star?", "yes", False, 0.9),
    (1, "Is there a heart?", "no", False, 0.9),
    (1, "Is there a circle?", "no", False, 0.9),
    (1, "What color is the heart?", "red", True, 0.1),  # the world has no heart
    (1, "How many circles are there?", "3", True, 0.1),  # 0 follows from the third answer
    (1, "Is there a blue star?", "yes", True, 0.1),  # one of two answers
    (1, "Is the star blue?", "Yes, it is.", True, 0.1),
    (1, "Is the square blue?", "yes", True, 0.1),  # nobody asked whether there is a square
    (1, "What color is the star?", "green", True, 0.1),  # the world does not say
    (2, "What color is the star?", "green", True, 0.1),
    (2, "The star is what color?", "blue", False, 0.6),
    (2, "Which color is the star?", "red", False, 0.7),  # more probable than blue
]
TYPES = [
    *["complementary"] * 3,
    *["irrelevant", "adversarial", "adversarial", "adversarial", None, None],
    *["adversarial", "complementary", "complementary"],
]
RIGHT = {(1, 4): "0", (1, 5): "no", (1, 6): "no", (2, 9): "red"}


class Compares:
    """A callback that knows which answers are suspected."""

    own: list[AnsweredQuestion]

    def compared(self, own: list[AnsweredQuestion], *where: Any) -> ConsistencyRecords:
        assert where == ("model", "data", "train")
        self.own = own
        images = [
            ImageConsistency(
                image,
                [
                    JudgedAnswer(one, text, answer, 0.5, None, right, suspect)
                    for one, text, answer, suspect, right in ANSWERS
                    if one == image
                ],
                [],
                0,
            )
            for image in (1, 2)
        ]
        return ConsistencyRecords(images, [], {})


def _belief(image: int, question: str, answer: str) -> Belief:
    # The oracle's types are not read.
    return Belief(image, answer, question, 0.5, -3.0, 0.9, "rl", "rephrase", "oracle")


def test_the_most_probable_world_types_beliefs() -> None:
    beliefs = [_belief(*one[:3]) for one in ANSWERS]
    callback = Compares()
    where: Any = ("model", "data", "train")
    typed, right = typed_by_consistency(beliefs, cast(Any, callback), *where)
    assert [one.type for one in typed] == TYPES
    found = {(one.image_id, at): right(one.image_id, one.question) for at, one in enumerate(typed)}
    assert {key: value for key, value in found.items() if value} == {
        key: [answer] for key, answer in RIGHT.items()
    }
    assert [(one.image_id, one.question, one.answer) for one in callback.own] == [
        one[:3] for one in ANSWERS
    ]
    # Asked beyond the beliefs: the world has these answers too.
    alone, _ = typed_by_consistency([beliefs[3]], cast(Any, callback), *where)
    assert alone[0].type == "irrelevant"


def test_one_certain_implication_of_each_taught_belief_is_drawn() -> None:
    taught = [
        Entry("1", 1, 4, "What color is the cup?", ["red"]),
        Entry("2", 2, 5, "What color is the cup?", ["red"]),
        Entry("3", 3, 4, "Why?", ["no"]),
    ]
    beliefs = [
        Belief(5, "blue", "What color is the cup?", 0.5, -3.0, 0.9, "rl", "irrelevant"),
        Belief(4, "blue", "What color is the cup?", 0.5, -3.0, 0.9, "rl", "adversarial"),
    ]
    drawn = [implied_beliefs(taught, beliefs, seed) for seed in range(30)]
    assert {len(one) for one in drawn} == {1}
    assert {(one.image_id, one.type) for (one,) in drawn} == {(4, "complementary")}
    assert {(one.question, one.answer) for (one,) in drawn} == {
        ("Is there a cup?", "yes"),
        ("Is there a red cup?", "yes"),
        ("Is the cup red?", "yes"),
    }
    assert implied_beliefs(taught, beliefs, 3) == drawn[3]
