"""Which answers must be wrong, at least, and which probably are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from ivqa.logic.contradictions import Contradiction, contradictions
from ivqa.logic.existence import existence
from ivqa.logic.reports import reports

SUSPECT = 0.05
"""The greatest probability of being right that makes an answer a suspect."""

_UNKNOWN = 0.8  # confidence of answers that come without one


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
    """What N answers about one picture say of one another.

    Args:
        right: Estimated probability that each is right, (N,) in [0, 1].
        suspect: Whether that is at most `SUSPECT`, or the most probable world lacks the answer
            because of a certain contradiction, (N,) bool.
        contradictions: The contradictions among the answers.
    """

    right: NDArray[np.float64]
    suspect: NDArray[np.bool_]
    contradictions: Sequence[Contradiction]


def suspicions(
    pictures: Sequence[PictureAnswers], witnesses: Sequence[Sequence[PictureAnswers]] = ()
) -> list[Suspicion]:
    """Estimates without labels which answers are wrong, from what they say of one another.

    An answer is right only if the things are there that it needs. Whether they are is estimated by
    `existence` from all answers about the picture; the answers to `follow_ups` say most about it.
    Beyond that, the confidence of an open answer counts as it is: that the star is red, if there
    is a star.

    Args:
        pictures: The answers about each picture. All pictures are judged together; below about
            1,000 answers the reliabilities are estimated poorly.
        witnesses: The answers of other models about the same pictures, best to the same questions.
            They say what is there too, each as reliably as it is estimated to be.

    Returns:
        One for each picture.

    Raises:
        ValueError: A picture has another number of confidences than of answers, or one outside
            [0, 1]; or a witness has another number of pictures.
    """
    if any(len(one) != len(pictures) for one in witnesses):
        raise ValueError(f"a witness does not speak of {len(pictures)} pictures")
    others = [[_confident(one) for one in witness] for witness in witnesses]
    propositions, rests = reports([_confident(one) for one in pictures], others)
    probability = existence(propositions)
    right = [np.array([rest.right(probability) for rest in one], float) for one in rests]
    found = []
    for one, picture in zip(right, pictures, strict=True):
        clashes = contradictions(picture.beliefs)
        found.append(Suspicion(one, _suspects(one, clashes), clashes))
    return found


def _suspects(right: NDArray[np.float64], found: Sequence[Contradiction]) -> NDArray[np.bool_]:
    """Improbable answers, and those that the most probable world lacks beyond them.

    A few answers about a few pictures estimate little, but of two that exclude each other one is
    wrong all the same.
    """
    suspect = right <= SUSPECT
    clashes = [one for one in found if one.certain and not suspect[list(one.members)].any()]
    bounded = np.clip(right, SUSPECT, 1 - 1e-6)
    # An answer that is more probably wrong than right still costs a little: a weight is positive.
    odds = np.maximum(np.log(bounded / (1 - bounded)), 1e-3)
    return suspect | left_out(odds, clashes)


def errors_at_least(count: int, found: Sequence[Contradiction]) -> int:
    """The least number of answers that are wrong: a minimum hitting set.

    Args:
        count: Number of answers.
        found: Contradictions among them; those that are not certain do not count.

    Returns:
        The number, exact.

    Raises:
        RuntimeError: The solver does not find it.

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

    Raises:
        RuntimeError: The solver does not find them.
    """
    flags = np.zeros(len(weights), bool)
    if not found:
        return flags
    rows = np.repeat(np.arange(len(found)), [len(one.members) for one in found])
    members, columns = np.unique([row for one in found for row in one.members], return_inverse=True)
    hit = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(found), len(members)))
    solved = milp(
        weights[members],
        constraints=LinearConstraint(hit, lb=1),
        integrality=np.ones(len(members)),
        bounds=Bounds(0, 1),
        options={"mip_rel_gap": 0},  # its default accepts a sum 0.01 percent too great
    )
    if solved.status != 0:
        raise RuntimeError(f"no smallest set of wrong answers is found: {solved.message}")
    flags[members] = solved.x > 0.5
    return flags


def _confident(picture: PictureAnswers) -> list[tuple[str, str, float]]:
    """Each answer with its confidence; a constant one where none are known."""
    confidences = picture.confidences
    if confidences is None:
        confidences = np.full(len(picture.beliefs), _UNKNOWN)
    if len(confidences) != len(picture.beliefs):
        raise ValueError(f"{len(picture.beliefs)} answers have {len(confidences)} confidences")
    if not np.all((confidences >= 0) & (confidences <= 1)):
        raise ValueError("a confidence lies outside [0, 1]; phi is a probability")
    return [(*belief, float(one)) for belief, one in zip(picture.beliefs, confidences, strict=True)]
