"""Statistics of a policy's samples, and warnings when they show that the policy has collapsed."""

from collections.abc import Mapping
from typing import Any

import torch
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor

from ivqa.diagnosis.candidates import Candidates

MIN_UNIQUE = 0.15  # distinct questions as a share of all samples
MAX_EMPTY = 0.05  # share of samples without a word
MIN_WORDS = 2.0  # mean words of a sample
MAX_PARTED = 0.3  # difference between two legality models' shares of legal samples


def sample_statistics(candidates: Candidates) -> dict[str, Tensor]:
    """Computes the statistics of N sampled questions that show a collapse.

    Returns:
        Scalars: "unique", distinct questions of a pair as a share of its samples; "empty", the
        share of questions without a word; "words", the mean length.
    """
    lengths = candidates.questions.tokens.lengths.float()  # (N,)
    return {
        "unique": torch.tensor(len(candidates.first) / max(len(candidates), 1)),
        "empty": (lengths == 0).float().mean(),
        "words": lengths.mean(),
    }


class CollapseMonitor:
    """Warns once of each sign that a policy has collapsed; `reported` has their names so far."""

    def __init__(self) -> None:
        self.reported: set[str] = set()

    def check(self, statistics: Mapping[str, Any], step: int) -> None:
        """Warns of the signs that have not been reported yet.

        `statistics` are those of `sample_statistics`, as tensors or numbers; "legal" and
        "legal_at_first" too where the legality model is trained on.
        """
        legal, before = (float(statistics.get(name, 0)) for name in ("legal", "legal_at_first"))
        unique, empty, words = (float(statistics[name]) for name in ("unique", "empty", "words"))
        parted = (
            "asks questions that only one of its two legality models takes for legal "
            f"({legal:.0%} by the one trained on, {before:.0%} by the first one)"
        )
        for name, present, sign in (
            ("legal", abs(legal - before) > MAX_PARTED, parted),
            ("unique", unique < MIN_UNIQUE, "asks nearly the same question for every z"),
            ("empty", empty > MAX_EMPTY, "asks empty questions"),
            ("words", words < MIN_WORDS, f"asks questions of under {MIN_WORDS:g} words"),
        ):
            if present and name not in self.reported:
                self.reported.add(name)
                rank_zero_warn(
                    f"step {step}: the policy {sign}; lower the learning rate, or add "
                    "a reward (reward=full), entropy_weight or supervised_weight"
                )
