"""Types of beliefs by the proxy, and the agreement of two typings."""

from dataclasses import replace

import numpy as np
import pytest

from ivqa.data import VQASplit
from ivqa.diagnosis import Belief, agreement, typed_by_proxy


def _split() -> VQASplit:
    return VQASplit(
        name="val",
        question_ids=np.array([1, 2]),
        image_ids=np.array([7, 7]),
        questions=["What color is the star?", "Is the heart small?"],
        answers=[["red"] * 10, ["yes"] * 6 + ["no"] * 4],
        main_answers=["red", "yes"],
        answer_types=["other", "yes/no"],
        question_types=["what color", "is the"],
        captions={7: ["A tiny heart beside a star"]},
    )


def _belief(question: str, answer: str) -> Belief:
    return Belief(7, answer, question, 0.5, -3.0, 0.9, "rl")


REFERENCES = {(7, "red"): ["What color is the star?"]}


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("What color is the star?", "red", "rephrase"),
        ("Is the heart small?", "yes", "complementary"),
        ("What color is the star?", "blue", "adversarial"),
        ("Is the bus green?", "yes", "irrelevant"),
        ("What color is the heart?", "red", None),  # no annotator answered it
    ],
)
def test_types_follow_captions_and_annotations(
    question: str, answer: str, kind: str | None
) -> None:
    (typed,) = typed_by_proxy([_belief(question, answer)], _split(), REFERENCES)
    assert typed.type == kind
    assert typed.type_by == (None if kind is None else "proxy")


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        # The same content words and first words as an annotated question.
        ("What color is a star in the picture?", "red", "rephrase"),
        ("What color do the stars have?", "blue", "adversarial"),
        ("Which color is the star?", "red", None),  # other first words
        ("Is the heart in this picture small?", "no", "complementary"),  # 4 of 10 say so
        ("Is the heart in this picture small?", "maybe", "adversarial"),
    ],
)
def test_answers_to_other_wordings_count(question: str, answer: str, kind: str | None) -> None:
    (typed,) = typed_by_proxy([_belief(question, answer)], _split(), REFERENCES)
    assert typed.type == kind


def test_without_captions_nothing_is_known_to_be_absent() -> None:
    belief = _belief("Is the bus green?", "yes")
    (typed,) = typed_by_proxy([belief], _split(), REFERENCES)
    (unknown,) = typed_by_proxy([belief], replace(_split(), captions=None), REFERENCES)
    elsewhere = replace(_split(), captions={8: ["A bus"]})
    (other,) = typed_by_proxy([belief], elsewhere, REFERENCES)
    assert (typed.type, unknown.type, other.type) == ("irrelevant", None, None)
    assert unknown.type_by is None


def test_agreement_counts_beliefs_with_both_types() -> None:
    kinds = ["rephrase", "irrelevant", "adversarial", None]
    others = ["complementary", "irrelevant", "complementary", "rephrase"]
    make = [_belief("Is it?", "yes")] * 4
    first = [Belief(**{**vars(b), "type": kind}) for b, kind in zip(make, kinds, strict=True)]
    second = [Belief(**{**vars(b), "type": kind}) for b, kind in zip(make, others, strict=True)]
    shares = agreement(first, second)
    assert shares == pytest.approx({"typed": 0.75, "type": 1 / 3, "relevant": 1.0, "correct": 0.5})
    assert agreement(first[3:], second[3:]) == {"typed": 0.0}


@pytest.mark.parametrize(("said", "kind"), [(1, "adversarial"), (2, "complementary")])
def test_one_annotator_of_ten_is_not_enough(said: int, kind: str) -> None:
    """The official accuracy is 0.3 with one annotator of ten, and 0.6 with two."""
    answers = [["red"] * 10, ["yes"] * (10 - said) + ["no"] * said]
    split = replace(_split(), answers=answers)
    (typed,) = typed_by_proxy([_belief("Is the heart small?", "no")], split, REFERENCES)
    assert typed.type == kind
