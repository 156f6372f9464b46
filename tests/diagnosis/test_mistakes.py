"""The commonest mistakes and the sharpest contradictions of a handful of beliefs."""

from dataclasses import replace

import pytest

from ivqa.diagnosis import Belief, commonest_mistakes
from ivqa.diagnosis.beliefs.mistakes import shares_error

BASE = Belief(1, "yes", "Is it?", 0.5, -3.0, 0.9, "rl", "adversarial", "oracle")


def _belief(
    image: int, question: str, answer: str, phi: float, kind: str = "adversarial"
) -> Belief:
    return replace(BASE, image_id=image, question=question, answer=answer, phi=phi, type=kind)  # type: ignore[arg-type]


WRONG = [
    _belief(1, "How many stars are there?", "2", 0.5),
    _belief(1, "How many hearts are there?", "2", 0.9),
    _belief(2, "How many stars are there?", "3", 0.8, "irrelevant"),
    _belief(3, "How many stars are there?", "2", 0.6),
    _belief(2, "Is there a star?", "yes", 0.7),
]
OTHERS = [
    _belief(1, "How many crosses are there?", "1", 1.0, "complementary"),
    _belief(1, "How many circles are there?", "1", 1.0, "rephrase"),
    replace(BASE, type=None, type_by=None),
]


class _Names:
    """Says that images 1 and 2 are about stars; knows nothing of image 3."""

    def mistake(self, image_id: int, question: str, answer: str) -> tuple[str, str] | None:
        return None if image_id == 3 else ("is wrong", "stars" if image_id == 1 else "")


def test_mistakes_are_grouped_by_the_first_words_without_an_oracle() -> None:
    first, second = commonest_mistakes(WRONG + OTHERS, None)
    assert first.description == "answers “how many …” wrongly"
    assert first.things == [("“2”", 3), ("“3”", 1)]
    assert (first.count, first.share) == (4, 4 / 5)
    assert first.confidence == pytest.approx((0.5 + 0.9 + 0.8 + 0.6) / 4)
    # A resample may hold image 2 alone, where the kind has 1 of 2; it has all others.
    assert 0.5 <= first.interval[0] < 4 / 5 < first.interval[1] <= 1
    # The most confident belief of each image, by falling confidence.
    assert list(first.examples) == [WRONG[1], WRONG[2], WRONG[3]]
    assert (second.description, second.count) == ("answers “is there …” wrongly", 1)


def test_shares_rest_on_the_beliefs_that_were_drawn_by_chance() -> None:
    """The search found three "how many" and one "is there"; by chance it is one and two."""
    chance = [
        replace(_belief(image, question, "1", 0.5), source="by_chance")
        for image, question in ((5, "Is there a box?"), (5, "Is there a car?"), (6, "How many?"))
    ]
    first, second = commonest_mistakes(WRONG + chance, None)
    assert (first.description, first.count, first.share) == (
        "answers “is there …” wrongly",
        3,
        2 / 3,
    )
    assert (second.count, second.share) == (5, 1 / 3)
    # Of the four resamples of two images, one has image 6 alone, two have both, one image 5 alone.
    assert first.interval == (0, 1)
    # Errors: 2/3 with probability 1/4 (no "is there"), 1/3 with 1/4 (nothing else), else 0.
    found = shares_error(WRONG + chance, None)
    assert found == pytest.approx((2 / 3 + 1 / 3) / 4, abs=0.03)
    assert shares_error(WRONG, None) is None


def test_an_oracle_names_the_kinds_that_it_understands() -> None:
    first, second = commonest_mistakes(WRONG + OTHERS, _Names(), num_examples=1)
    assert (first.description, first.things, first.count) == ("is wrong", [("stars", 2)], 4)
    assert list(first.examples) == [WRONG[1]]
    assert second.description == "answers “how many …” wrongly"
    assert commonest_mistakes(OTHERS, _Names()) == []
