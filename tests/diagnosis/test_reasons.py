"""Words and places behind beliefs, and samples across confidence."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from toy_diagnosis import ANSWERS, WordAnswerer

from ivqa.data import DataError
from ivqa.data.batches.batch import ImageBatch
from ivqa.diagnosis import (
    Belief,
    Reasons,
    across_confidence,
    first_meanings,
    meaning_of,
    read_reasons,
    reasons_of,
    write_reasons,
)
from ivqa.diagnosis.beliefs import reasons as reasons_file

BASE = Belief(7, "red", "What color is it?", 0.8, -3.0, 0.9, "rl", "adversarial", "oracle")


def _images(ids: object) -> ImageBatch:
    numbers = torch.tensor(list(ids))  # type: ignore[call-overload]
    return ImageBatch(ids=numbers, index=torch.arange(len(numbers)))


class LooksAtTheId(WordAnswerer):
    """Looks at the place with the number of the image."""

    def attention(self, images: ImageBatch, questions: list[str]) -> Tensor | None:
        return torch.eye(9)[images.ids[images.index]]


class Writes(WordAnswerer):
    """A model without a closed set; it scores one list of answers for all questions."""

    answers = None

    def log_scores(
        self, images: ImageBatch, questions: list[str], answers: list[str] | None = None
    ) -> Tensor:
        assert answers is not None
        return super().log_scores(images, questions)[:, ANSWERS.encode(answers)]


@pytest.mark.parametrize("answerer", [WordAnswerer(), Writes(), LooksAtTheId()])
@pytest.mark.parametrize("at_once", [3, 256])
def test_the_fall_is_the_probability_without_the_word(
    answerer: WordAnswerer, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The word "color" gives "red" 0.8, "star" gives "yes" 0.8, else "no" has 0.8; others 0.1."""
    monkeypatch.setattr(reasons_file, "_QUESTIONS_PER_PASS", at_once)
    beliefs = [
        BASE,
        replace(BASE, image_id=8, answer="yes", question="A star star?"),  # one remains
        replace(BASE, answer="no", question="What is a star?"),  # without the star, 0.8
        replace(BASE, answer="red", question="Color?"),
    ]
    found = reasons_of(beliefs, answerer, _images)
    falls = [tuple(round(fall, 3) for fall in own.falls) for own in found]
    assert falls == [(0.0, 0.7, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, -0.7), ()]
    looks = isinstance(answerer, LooksAtTheId)
    expected = [tuple(float(place == image) for place in range(9)) for image in (7, 8, 7, 7)]
    assert [own.places for own in found] == (expected if looks else [()] * 4)


def test_reasons_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "reasons.jsonl"
    assert read_reasons(file) == {}
    written = {3: Reasons((0.5, -0.25), (0.5, 0.5, 0.0, 0.0)), 9: Reasons(())}
    write_reasons(file, written)
    assert read_reasons(file) == written
    file.write_text(file.read_text() + '{"line": 4, "falls": ["a"], "places": []}\n')
    with pytest.raises(DataError, match=r"reasons.jsonl, line 3: not the reasons of a belief"):
        read_reasons(file)


def _belief(image: int, phi: float, kind: str | None = "rephrase", q: str = "Is it?") -> Belief:
    return replace(BASE, image_id=image, phi=phi, type=kind, question=q)  # type: ignore[arg-type]


def test_the_share_of_right_beliefs_of_each_confidence() -> None:
    beliefs = [
        _belief(1, 1.0),
        _belief(2, 0.75, "irrelevant"),
        _belief(3, 0.8, "complementary"),
        _belief(3, 0.9, None),
        _belief(4, 0.7499, "adversarial"),
        _belief(5, 0.0, None),
    ]
    middle, surest = across_confidence(beliefs, (0.0, 0.25, 0.5, 0.75, 1.0))
    assert (middle.low, middle.high, middle.typed, middle.correct) == (0.5, 0.75, 1, 0)
    assert (surest.low, surest.high, surest.typed, surest.correct) == (0.75, 1.0, 3, 2 / 3)
    assert surest.confidence == pytest.approx((1.0 + 0.75 + 0.8) / 3)
    assert middle.interval == (0, 0)
    # Of three images, each a third: 1 of 27 draws has no right belief, and 8 of 27 only right ones.
    assert surest.interval == (0, 1)
    assert across_confidence([], (0, 1)) == []
    # The wrong belief stands for three: 2 of 5 are right.
    (whole,) = across_confidence(beliefs[:3], (0, 1), [1, 3, 1])
    assert whole.correct == pytest.approx(2 / 5)
    assert whole.confidence == pytest.approx((1.0 + 3 * 0.75 + 0.8) / 5)


def test_the_first_meanings() -> None:
    star, same, heart = "Is there a star?", "Do you see any stars?", "Is there a heart?"
    beliefs = [
        _belief(1, 0.5, q=star),
        _belief(1, 0.9, q=same),
        _belief(1, 0.4, q=heart),
        _belief(2, 0.7, q=star),
    ]
    means = meaning_of(None)
    assert means(star) == means(same) != means(heart)
    # "Is there a star" means the same as the more confident question before it.
    assert first_meanings(beliefs, means, 2) == [beliefs[1], beliefs[3], beliefs[2]]
    assert first_meanings(beliefs, means, 1) == [beliefs[1], beliefs[3]]
