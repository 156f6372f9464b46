"""Whether the given answer is the right answer to a generated question, by the scenes' oracle."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torchmetrics import Metric

VERDICTS = ("consistent", "other answer", "false premise", "not understood")


class JudgementLike(Protocol):
    """An oracle's judgement of a question; `ivqa.scenes.Judgement` is one."""

    @property
    def understood(self) -> bool:
        """Whether the question is one of the grammar."""

    @property
    def premise(self) -> bool | None:
        """Whether what it takes for granted is there; None where it is not understood."""

    @property
    def answer(self) -> str | None:
        """The right answer; None without a premise."""

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


def oracle_consistency(
    judgements: Sequence[JudgementLike | str], answers: Sequence[str] | None = None
) -> dict[str, float]:
    """Shares of all questions: understood, true_premise (and understood), consistent (and both).

    judgements: of the questions, with the `answers` they were asked for; or, without answers,
    the verdicts of those.
    Raises ValueError without a question, or where the two differ in number.

    >>> oracle_consistency(["consistent", "other answer", "false premise", "not understood"])
    {'understood': 0.75, 'true_premise': 0.5, 'consistent': 0.25}
    """
    return _shares(_counts(_verdicts(judgements, answers)))


def _verdicts(
    judgements: Sequence[JudgementLike | str], answers: Sequence[str] | None
) -> list[str]:
    if answers is None:
        names = [name for name in judgements if isinstance(name, str)]
        if len(names) < len(judgements):
            raise ValueError(
                f"{len(judgements) - len(names)} judgements came without the answers their "
                "questions were asked for; give one answer a judgement"
            )
        return names
    if len(judgements) != len(answers):
        raise ValueError(
            f"{len(judgements)} judgements for {len(answers)} answers; give one answer a judgement"
        )
    if any(isinstance(judgement, str) for judgement in judgements):
        raise ValueError("verdicts are of an answer already; leave the answers out")
    return [
        verdict(judgement, answer)
        for judgement, answer in zip(judgements, answers, strict=True)
        if not isinstance(judgement, str)
    ]


def _counts(verdicts: Sequence[str]) -> Tensor:
    """How often each of VERDICTS occurs, (4,) int64."""
    if unknown := set(verdicts) - set(VERDICTS):
        raise ValueError(f"'{min(unknown)}' is no verdict; valid are {', '.join(VERDICTS)}")
    ranks = torch.tensor([VERDICTS.index(name) for name in verdicts], dtype=torch.int64)
    return ranks.bincount(minlength=len(VERDICTS))


def _shares(counts: Tensor) -> dict[str, float]:
    # VERDICTS go from all conditions met to none, so the conditions are nested.
    consistent, true_premise, understood, total = counts.cumsum(0).tolist()
    if not total:
        raise ValueError("oracle consistency needs the verdict of at least one question")
    return {
        "understood": understood / total,
        "true_premise": true_premise / total,
        "consistent": consistent / total,
    }


class OracleConsistency(Metric):
    """`oracle_consistency` accumulated over batches and processes.

    >>> metric = OracleConsistency()
    >>> metric.update(["consistent", "not understood"])
    >>> metric.compute()["understood"]
    0.5
    """

    full_state_update = False
    counts: Tensor

    def __init__(self) -> None:
        super().__init__()
        counts = torch.zeros(len(VERDICTS), dtype=torch.int64)
        self.add_state("counts", counts, dist_reduce_fx="sum")

    def update(
        self,
        judgements: Sequence[JudgementLike | str],
        answers: Sequence[str] | None = None,
    ) -> None:
        """Adds questions; arguments as in `oracle_consistency`."""
        self.counts = self.counts + _counts(_verdicts(judgements, answers)).to(self.device)

    def compute(self) -> dict[str, float]:
        """The shares by name; see `oracle_consistency`."""
        return _shares(self.counts)
