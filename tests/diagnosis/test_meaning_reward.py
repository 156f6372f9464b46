"""Beliefs of one pair that mean the same share their reward, whatever their wording."""

import pytest
import torch
from toy_diagnosis import ANSWERS, WordAnswerer, toy_images

from ivqa.diagnosis import Candidates, DiversityReward, MeaningReward
from ivqa.generators import Questions
from ivqa.text.vocabulary import Vocabulary

# The toy model answers "yes" to questions with "star" and "no" to others.
ASKED = [
    ("Is there a star?", 0),  # a belief of pair 0
    ("Is the star red?", 0),  # a belief of another meaning
    ("Are there any stars?", 0),  # the first meaning in other words
    ("Is there a star?", 0),  # a copy
    ("Is there a heart?", 0),  # no belief
    ("Are there any hearts?", 0),  # no belief, of the same meaning
    ("Is there a star?", 1),  # another pair: its own meaning
    ("Near a bus is star?", 1),  # the grammar does not parse these two
    ("Star is near the bus?", 1),
    ("Is the star left of the heart?", 2),  # the same words, but not the same meaning
    ("Is the heart left of the star?", 2),
    ("Is the star to the right of the heart?", 2),  # other words, but the same meaning
]


def _candidates() -> Candidates:
    texts, pairs = [text for text, _ in ASKED], torch.tensor([pair for _, pair in ASKED])
    tokens = Vocabulary.build(texts).encode(texts)
    questions = Questions(tokens, texts, -torch.arange(float(len(texts))), pairs)
    return Candidates(questions, toy_images(3), ["yes"] * 3, WordAnswerer(), ANSWERS)


@pytest.mark.parametrize(("power", "shared"), [(1.0, 0.5), (2.0, 0.25), (0.0, 1.0)])
def test_wordings_of_one_meaning_share_the_reward(power: float, shared: float) -> None:
    """A copy does not count as a wording, and questions that are no beliefs do not share."""
    reward = MeaningReward(power=power)(_candidates())
    expected = [shared, 1, shared, shared, 1, 1, 1, *[shared] * 2, 1, *[shared] * 2]
    torch.testing.assert_close(reward, torch.tensor(expected, dtype=torch.float32))


def test_all_beliefs_of_a_meaning_earn_as_much_as_one() -> None:
    """The sum over the beliefs without copies is the number of distinct meanings."""
    candidates = _candidates()
    earned = MeaningReward()(candidates) * DiversityReward()(candidates) * candidates.believed
    pairs = candidates.questions.pair
    assert earned[pairs == 0].sum() == 2
    assert earned[pairs == 1].sum() == 2
    assert earned[pairs == 2].sum() == 2
