"""Consistency of generated questions with their answers, judged by the oracle of the scenes."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torchmetrics import Metric

# From all conditions met to none; `_shares` relies on this order.
VERDICTS = ("consistent", "other answer", "false premise", "not understood")


class JudgementLike(Protocol):
    """An oracle's judgement of a question, such as `ivqa.scenes.Judgement`."""

    @property
    def understood(self) -> bool:
        """Whether the grammar contains the question."""

    @property
    def premise(self) -> bool | None:
        """Whether everything that the question presupposes is there; None if not understood."""

    @property
    def answer(self) -> str | None:
        """The right answer; None without a true premise."""

    @property
    def acceptable(self) -> frozenset[str]:
        """All right answers."""


def verdict(judgement: JudgementLike, answer: str) -> str:
    """Compares the oracle's judgement of a question with the answer that it was generated for.

    Returns one of `VERDICTS`.
    """
    if not judgement.understood:
        return "not understood"
    if not judgement.premise:
        return "false premise"
    return "consistent" if answer in judgement.acceptable else "other answer"


def oracle_consistency(
    judgements: Sequence[JudgementLike | str], answers: Sequence[str] | None = None
) -> dict[str, float]:
    """Computes the shares of generated questions that meet the oracle's conditions.

    Args:
        judgements: N judgements of questions, or, without `answers`, N verdicts.
        answers: N answers that the questions were generated for.

    Returns:
        Shares of all questions, in [0, 1]: "understood"; "true_premise", of these the ones with a
        true premise; "consistent", of these the ones whose right answers include the given answer.

    Raises:
        ValueError: There is no question, an unknown verdict, or another number of answers than of
            judgements; or judgements come without answers or verdicts with them.

    Example:
        >>> oracle_consistency(["consistent", "other answer", "false premise", "not understood"])
        {'understood': 0.75, 'true_premise': 0.5, 'consistent': 0.25}
    """
    return _shares(_counts(_verdicts(judgements, answers)))


def _verdicts(
    judgements: Sequence[JudgementLike | str], answers: Sequence[str] | None
) -> list[str]:
    """The verdict of each question."""
    if answers is None:
        names = [name for name in judgements if isinstance(name, str)]
        if len(names) < len(judgements):
            raise ValueError(
                f"{len(judgements) - len(names)} judgements have no answers; give one answer for "
                "each judgement"
            )
        return names
    if len(judgements) != len(answers):
        raise ValueError(
            f"{len(judgements)} judgements for {len(answers)} answers; give one answer for each "
            "judgement"
        )
    if any(isinstance(judgement, str) for judgement in judgements):
        raise ValueError("verdicts already include the answers; leave the answers out")
    return [
        verdict(judgement, answer)
        for judgement, answer in zip(judgements, answers, strict=True)
        if not isinstance(judgement, str)
    ]


def _counts(verdicts: Sequence[str]) -> Tensor:
    """(4,) int64: count of each of `VERDICTS`."""
    if unknown := set(verdicts) - set(VERDICTS):
        raise ValueError(f"'{min(unknown)}' is not a verdict; valid are {', '.join(VERDICTS)}")
    ranks = torch.tensor([VERDICTS.index(name) for name in verdicts], dtype=torch.int64)
    return ranks.bincount(minlength=len(VERDICTS))


def _shares(counts: Tensor) -> dict[str, float]:
    """The shares of `oracle_consistency` from the counts of the verdicts."""
    # The conditions are nested, so cumulative sums count the questions that meet each of them.
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

    Example:
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
        """Adds a batch, which may be empty; see `oracle_consistency`."""
        self.counts = self.counts + _counts(_verdicts(judgements, answers)).to(self.device)

    def compute(self) -> dict[str, float]:
        """Computes the shares of all questions by name; see `oracle_consistency`."""
        return _shares(self.counts)
