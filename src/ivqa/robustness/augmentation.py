"""Robust training: noise on a part of the training questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ivqa.ranges import Count, Seed, Share
from ivqa.robustness.noise import Checkable, Noise


@dataclass(frozen=True)
class NoiseAugmentation:
    """Disturbs training questions with a level of noise that is drawn again in every epoch.

    Args:
        noise: Noise on questions. All levels are equally probable.
        probability: Probability that a question is disturbed in an epoch.
        num_questions: Number of training questions, drawn at random, that can be disturbed, for
            noise that takes long to compute; None for all.
        seed: Seed of that draw.
    """

    version: ClassVar[int] = 1

    noise: Noise
    probability: Share = 0.5
    num_questions: Count | None = None
    seed: Seed = 0

    def variants(self, questions: Sequence[str]) -> list[list[str]]:
        """Computes the noisy variants of the N training questions.

        Returns:
            For each level of the noise, the N questions, some unchanged that cannot be disturbed.
        """
        rows = self._rows(len(questions))
        chosen = [questions[row] for row in rows]
        # The questions that can be disturbed are the same at all levels.
        levels = []
        for noisy in self.noise.disturbed(chosen, questions):
            level = list(questions)
            for row, text in zip(rows, noisy, strict=True):
                level[row] = text
            levels.append(level)
        return levels

    def check(self, questions: Sequence[str]) -> None:
        """Checks in a short time that the noise can disturb the training questions.

        Raises:
            UserError: The noise has nothing for one of the questions.
        """
        if isinstance(self.noise, Checkable):
            self.noise.check([questions[row] for row in self._rows(len(questions))], questions)

    def _rows(self, number: int) -> list[int]:
        """The questions, of `number`, that can be disturbed."""
        if self.num_questions is None or self.num_questions >= number:
            return list(range(number))
        # A prefix of one random order: a larger number contains the questions of a smaller one.
        order = np.random.default_rng(self.seed).permutation(number)
        return order[: self.num_questions].tolist()
