"""Values of the loss computed by hand, and schedules of one step."""

import pytest
import torch

from ivqa.generators import LinearAnnealing
from ivqa.generators.objective import negative_elbo

LIKELIHOOD = torch.tensor([-2.0, -4.0])
KL = torch.tensor([[0.5, 0.0], [1.5, 0.0]])  # means of the dimensions: 1 and 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 3 + 1.0),  # no free bits
        ({"kl_weight": 0.5, "free_nats": 2.0}, 3 + 0.5 * 2.0),
        ({"free_nats": 0.25, "per_dimension": True}, 3 + 1.0 + 0.25),
        ({"free_nats": 2.0, "pull": True}, 3 + 2.0 + 1.0),
        ({"free_nats": 2.0, "per_dimension": True, "pull": True}, 3 + (2 + 1) + (2 + 2)),
    ],
)
def test_the_loss_by_hand(options: dict, expected: float) -> None:
    assert negative_elbo(LIKELIHOOD, KL, **options).item() == pytest.approx(expected)


def test_schedules_of_one_step() -> None:
    assert [LinearAnnealing(1)(step) for step in (0, 1, 2)] == [0, 1, 1]
