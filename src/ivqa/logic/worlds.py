"""Which answers must be wrong, at least, and which probably are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from ivqa.logic.contradictions import Contradiction, contradictions


@dataclass(frozen=True, eq=False)
class PictureAnswers:
    """The answers of a model to N questions about one picture.

    Args:
        beliefs: N (question, answer) pairs.
        confidences: phi(answer | picture, question) of each, (N,) in [0, 1]; None where unknown.
    """

    beliefs: Sequence[tuple[str, str]]
    confidences: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Suspicion:
    """What the contradictions say of N answers about one picture.

    Args:
        right: Estimated probability that each is right, (N,) in [0, 1].
        suspect: Whether the most probable world lacks the answer, (N,) bool.
        contradictions: The contradictions among the answers.
    """

    right: NDArray[np.float64]
    suspect: NDArray[np.bool_]
    contradictions: Sequence[Contradiction]


def errors_at_least(count: int, found: Sequence[Contradiction]) -> int:
    """The least number of answers that are wrong: a minimum hitting set.

    Args:
        count: Number of answers.
        found: Contradictions among them; those that are not certain do not count.

    Returns:
        The number, exact.

    Example:
        >>> errors_at_least(3, [Contradiction((0, 1), "polarity", certain=True)])
        1
    """
    return int(left_out(np.ones(count), [one for one in found if one.certain]).sum())


def left_out(weights: NDArray[np.float64], found: Sequence[Contradiction]) -> NDArray[np.bool_]:
    """The answers of least total weight whose removal leaves no contradiction.

    Args:
        weights: Weights (N,), positive.
        found: Contradictions among the N answers.

    Returns:
        Flags (N,) of those that go. The others are the most probable world, if the weight of an
        answer is the logarithm of the odds that it is right.
    """
    members = sorted({row for one in found for row in one.members})
    flags = np.zeros(len(weights), bool)
    if not members:
        return flags
    column = {row: place for place, row in enumerate(members)}
    rows = [number for number, one in enumerate(found) for _ in one.members]
    columns = [column[row] for one in found for row in one.members]
    hit = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(found), len(members)))
    solved = milp(
        weights[members],
        constraints=LinearConstraint(hit, lb=1),
        integrality=np.ones(len(members)),
        bounds=Bounds(0, 1),
    )
    flags[members] = solved.x > 0.5
    return flags


def suspicions(pictures: Sequence[PictureAnswers]) -> list[Suspicion]:
    """Estimates which answers are wrong from the contradictions among them alone.

    Args:
        pictures: The answers about each picture; all pictures are judged together.

    Returns:
        One for each picture.
    """
    results = []
    for picture in pictures:
        found = contradictions(picture.beliefs)
        suspect = left_out(np.ones(len(picture.beliefs)), found)
        results.append(Suspicion(1.0 - suspect, suspect, found))
    return results
