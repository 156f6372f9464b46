"""Rewards exactly at the threshold, and of equally probable copies."""

from types import SimpleNamespace

import torch

from ivqa.diagnosis import DiversityReward, LegalityReward


def test_a_question_at_the_threshold_is_not_legal() -> None:
    legality = torch.tensor([0.25, 0.5, 0.75])
    candidates = SimpleNamespace(legality_model=SimpleNamespace(limit=0.5), legality=legality)
    assert LegalityReward()(candidates).tolist() == [0, 0, 1]
    assert LegalityReward(threshold=0.25)(candidates).tolist() == [0, 1, 1]


def test_the_first_of_equally_probable_copies_wins() -> None:
    # 300 equally probable copies of three questions: an unstable sort would mix them up.
    group = torch.arange(300) % 3
    candidates = SimpleNamespace(
        questions=SimpleNamespace(log_likelihood=torch.zeros(300)), group=group
    )
    assert DiversityReward()(candidates).nonzero().flatten().tolist() == [0, 1, 2]
