"""Answers about one image that cannot all be true."""

from collections.abc import Sequence
from dataclasses import dataclass

from ivqa.logic.implications import implications


@dataclass(frozen=True)
class Contradiction:
    """Answers about one image of which at least one is wrong.

    Args:
        members: Positions of the answers in the list that was searched, ascending; two or more.
            Without any one of them the rest can be true together, as far as the rules know.
        rule: Name of the rule that they break.
        certain: Whether the rule holds for every image.
    """

    members: tuple[int, ...]
    rule: str
    certain: bool


def contradictions(beliefs: Sequence[tuple[str, str]]) -> list[Contradiction]:
    """Finds the answers about one image that cannot all be true.

    Args:
        beliefs: N (question, answer) pairs about one image.

    Returns:
        The contradictions, ordered by their members; two answers have at most one.
    """
    texts = {question.casefold(): row for row, (question, _) in enumerate(beliefs)}
    found = {}
    for row, (question, answer) in enumerate(beliefs):
        for implied in implications(question, answer):
            other = texts.get(implied.question.casefold())
            if other is not None and beliefs[other][1] != implied.answer:
                members = (min(row, other), max(row, other))
                found[members] = Contradiction(members, implied.rule, implied.certain)
    return [found[members] for members in sorted(found)]


def contradicting(beliefs: Sequence[tuple[str, str]]) -> list[bool]:
    """Finds the answers about one image that contradict another one for certain.

    Args:
        beliefs: N (question, answer) pairs about one image.

    Returns:
        N flags: whether the answer is in a certain contradiction.

    Example:
        >>> contradicting([("Is there a star?", "yes"), ("Is there no star?", "yes")])
        [True, True]
    """
    wrong = {one for found in contradictions(beliefs) if found.certain for one in found.members}
    return [row in wrong for row in range(len(beliefs))]
