"""The images and answers whose beliefs are searched."""

import numpy as np

from ivqa.data import VQASplit
from ivqa.diagnosis.beliefs.pairs import choose_pairs
from ivqa.text.answers import AnswerVocabulary

IMAGES = np.repeat(np.arange(20), 2)
SPLIT = VQASplit(
    name="test",
    question_ids=np.arange(40),
    image_ids=IMAGES,
    questions=[f"Is it {number}?" for number in range(40)],
    answers=[["yes"]] * 40,
    main_answers=["yes", "no"] * 20,
    answer_types=["yes/no"] * 40,
    question_types=["is it"] * 40,
)


def _images(number: int | None, seed: int) -> list[int]:
    known = AnswerVocabulary(["yes", "no"])
    pairs = choose_pairs(
        SPLIT, known, [], num_images=number, pool="ground_truth", num_top_answers=1, seed=seed
    )
    assert pairs.answers == ["no", "yes"] * (len(pairs.images) // 2)
    return pairs.images[::2]


def test_images_are_drawn_at_random_with_the_seed() -> None:
    drawn = [_images(5, seed) for seed in range(4)]
    assert drawn == [_images(5, seed) for seed in range(4)]
    assert list(range(5)) not in drawn
    assert len(set(map(tuple, drawn))) == 4
    assert all(own == sorted(set(own)) and len(own) == 5 for own in drawn)
    assert _images(None, 0) == _images(20, 1) == list(range(20))
