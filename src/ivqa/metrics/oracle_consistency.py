"""Whether the given answer is the right answer to a generated question, by the scenes' oracle."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

VERDICTS = ("consistent", "other answer", "false premise", "not understood")


class JudgementLike(Protocol):
    """An oracle's judgement of a question; `ivqa.data.scenes.Judgement` is one."""

    @property
    def understood(self) -> bool:
        """Whether the question is one of the grammar."""

    @property
    def premise(self) -> bool | None:
        """Whether what it takes for granted is there."""

    @property
    def acceptable(self) -> frozenset[str]:
        """All right answers."""


def verdict(judgement: JudgementLike, answer: str) -> str:
    """One of VERDICTS for a question that was asked for `answer`."""
    if not judgement.understood:
        return "not understood"
    if not judgement.premise:
        return "false premise"
    return "consistent" if answer in judgement.acceptable else "other answer"


def oracle_consistency(verdicts: Sequence[str]) -> dict[str, float]:
    """Shares of the questions: understood, true_premise (and understood), consistent (and both).

    >>> oracle_consistency(["consistent", "other answer", "false premise", "not understood"])
    {'understood': 0.75, 'true_premise': 0.5, 'consistent': 0.25}
    """
    if not verdicts:
        raise ValueError("oracle consistency needs the verdict of at least one question")
    if unknown := set(verdicts) - set(VERDICTS):
        raise ValueError(f"'{min(unknown)}' is no verdict; valid are {', '.join(VERDICTS)}")
    ranks = np.array([VERDICTS.index(name) for name in verdicts])
    return {
        "understood": float((ranks < 3).mean()),
        "true_premise": float((ranks < 2).mean()),
        "consistent": float((ranks < 1).mean()),
    }
