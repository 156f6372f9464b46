"""Answers that change under noise, as examples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ivqa.robustness.comparison import RIGHT
from ivqa.robustness.records import NoiseRecords
from ivqa.text.normalisation import normalise_answer


@dataclass(frozen=True)
class Flips:
    """The questions whose answer or its verdict at one level differs from that without noise.

    Attributes:
        broken: Positions of questions whose answer was right and is wrong (accuracy below `RIGHT`).
        repaired: Positions of questions whose answer was wrong and is right.
        other: Positions of questions whose answer changed, but not its verdict.
    """

    broken: NDArray[np.int64]
    repaired: NDArray[np.int64]
    other: NDArray[np.int64]

    def examples(self, number: int, seed: int = 0) -> list[int]:
        """Draws examples: two thirds of them broken, the others repaired, as far as there are any.

        Args:
            number: How many.
            seed: Seed of the draw.

        Returns:
            At most `number` positions of broken questions, then of repaired ones.
        """
        rng = np.random.default_rng(seed)
        broken: list[int] = rng.permutation(self.broken).tolist()
        repaired: list[int] = rng.permutation(self.repaired).tolist()
        few = min(len(repaired), number - min(len(broken), round(number * 2 / 3)))
        return broken[: number - few] + repaired[:few]


def flips_at(records: NoiseRecords, level: int) -> Flips:
    """Finds the answers of one level that differ from those without noise.

    Args:
        records: Answers at levels 0 ... L.
        level: A level in 1 ... L.

    Returns:
        The questions whose answer becomes wrong or right, or differs after normalisation.
    """
    clean, noisy = records.answers[0], records.answers[level]
    changed = np.array(
        [normalise_answer(a) != normalise_answer(b) for a, b in zip(clean, noisy, strict=True)]
    )
    before, after = (records.accuracies[at] >= RIGHT for at in (0, level))
    return Flips(
        broken=np.flatnonzero(before & ~after),
        repaired=np.flatnonzero(~before & after),
        other=np.flatnonzero(changed & (before == after)),
    )
