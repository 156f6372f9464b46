"""Pictures that are unlike those a model was trained on."""

from math import comb

import numpy as np
import pytest
import torch

from ivqa.features.unlike import number_unlike


def _exceeding(n: int, a: int, m: int, x: int) -> float:
    """P(x of m new values exceed the a-th largest of n), by counting the orders of all n + m."""
    return comb(x + a - 1, x) * comb(m - x + n - a, m - x) / comb(n + m, m)


@pytest.mark.parametrize(("n", "m"), [(300, 1), (300, 40), (700, 100), (40, 4)])
def test_fewer_than_chance_explains_are_none(n: int, m: int) -> None:
    """Training pictures at 1, 2, ..., n lie 1 apart, so that the limit is 1."""
    training = torch.arange(1.0, n + 1)[:, None]
    a = max(1, n // 100)
    likely = next(
        k for k in range(m + 1) if sum(_exceeding(n, a, m, x) for x in range(k + 1)) >= 0.99
    )
    for far in {likely, min(likely + 1, m)}:
        given = torch.tensor([-1.5] * far + [n / 2 + 0.3] * (m - far))[:, None]
        assert number_unlike(training, given) == (far if far > likely else 0)


def test_the_count_is_that_of_distances_between_standardised_features() -> None:
    """A feature in large units does not hide another one; a constant one does not divide by 0."""
    rng = np.random.default_rng(0)
    training = rng.normal(size=(150, 3)) * [1000, 1, 0]
    given = rng.normal(size=(60, 3)) * [1000, 1, 0]
    given[:20, 1] += 6
    scaled, other = (one[:, :2] / training[:, :2].std(axis=0) for one in (training, given))
    near = [sorted(np.linalg.norm(a - b) for b in scaled)[1] for a in scaled]  # [0]: itself
    far = [min(np.linalg.norm(a - b) for b in scaled) > max(near) for a in other]
    assert 15 < sum(far) == number_unlike(torch.tensor(training), torch.tensor(given)) < 25
