"""Robust training: models that meet noise while they learn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ivqa.ranges import Count, Seed, Share
from ivqa.robustness.noise import Noise


@dataclass(frozen=True)
class NoiseAugmentation:
    """Training questions under noise of a level drawn anew in every epoch.

    noise: of questions; any level is as probable as another. probability: of noise at all; the
    rest is read as it is. num_questions: only so many of the training questions, drawn at random,
    are ever disturbed, where a ranking of all would take too long; None: all. seed: of that draw.
    """

    noise: Noise
    probability: Share = 0.5
    num_questions: Count | None = None
    seed: Seed = 0

    def variants(self, questions: Sequence[str]) -> list[list[str]]:
        """The N questions at each level; those that are never disturbed as they are."""
        rows = list(range(len(questions)))
        if self.num_questions is not None and self.num_questions < len(rows):
            order = np.random.default_rng(self.seed).permutation(len(rows))
            rows = order[: self.num_questions].tolist()
        chosen = [questions[row] for row in rows]
        levels = []
        for noisy in self.noise.disturbed(chosen, questions):
            level = list(questions)
            for row, text in zip(rows, noisy, strict=True):
                level[row] = text
            levels.append(level)
        return levels
