"""The validation terms of two processes, and the default of free nats."""

import math

import pytest
import torch
from torch import Tensor

from ivqa.generators.elbo_terms import ElboTerms
from ivqa.generators.networks.network import GeneratorOutput
from ivqa.generators.objective import negative_elbo

MEANS = [[0.5, 1.0], [0.5, -1.0], [0.5, 0.0]]  # variances 0 and 2 / 3
LIKELIHOODS, KL, TOKENS = [-2.0, -4.0, -9.0], [[0.5, 1.0], [0.5, 2.0], [0.0, 3.0]], [2, 3, 7]


def _terms(rows: slice) -> ElboTerms:
    terms = ElboTerms(latent_size=2)
    terms.update(
        GeneratorOutput(
            torch.tensor(LIKELIHOODS[rows]),
            torch.tensor(TOKENS[rows]),
            torch.tensor(KL[rows]),
            torch.tensor(MEANS[rows]),
        )
    )
    return terms


def test_the_terms_of_two_processes_are_those_of_all_questions() -> None:
    first, second = _terms(slice(0, 1)), _terms(slice(1, 3))
    others = iter(list(second.metric_state.values()))

    def all_gather(mine: Tensor, group: object) -> list[Tensor]:
        return [mine, next(others)]

    first.dist_sync_fn, first.distributed_available_fn = all_gather, lambda: True
    found = {name: float(value) for name, value in first.compute().items()}
    elbo = -15.0 - 7.0
    assert found == pytest.approx(
        {
            "loss": -elbo / 3,
            "elbo": elbo / 3,
            "nll_per_word": 15 / 12,
            "perplexity": math.exp(22 / 12),
            "kl": 7 / 3,
            "active_units": 1,
        }
    )


def test_no_nats_are_free_by_default() -> None:
    # A KL of 0.5 nats.
    loss = negative_elbo(torch.tensor([-2.0]), torch.tensor([[0.25, 0.25]]))
    assert float(loss) == 2.5
