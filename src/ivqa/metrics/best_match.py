"""Oracle scores: of many questions asked about a pair, the one closest to a true one [iVQA 6]."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ivqa.metrics.cider import CiderStatistics, cider_scores


def nearest_references(
    questions: Sequence[str], references: Sequence[Sequence[str]], statistics: CiderStatistics
) -> tuple[list[str], NDArray[np.float64]]:
    """Of each of N questions the own reference of highest CIDEr-D, the first of equals, and it.

    Raises ValueError where a question has no reference.

    >>> statistics = CiderStatistics.of([["is it red"], ["what shape is it"], ["how many stars"]])
    >>> own = ["What shape is it?", "How many stars are there?"]
    >>> nearest_references(["What shape is that?"], [own], statistics)[0]
    ['What shape is it?']
    """
    if not len(questions):
        return [], np.zeros(0)
    counts = [len(own) for own in references]
    scores = cider_scores(
        [text for text, count in zip(questions, counts, strict=True) for _ in range(count)],
        [[reference] for own in references for reference in own],
        statistics,
    )
    best = first_of_highest(scores, np.repeat(np.arange(len(counts)), counts))
    flat = [reference for own in references for reference in own]
    return [flat[at] for at in best.tolist()], scores[best]


def first_of_highest(
    scores: NDArray[np.floating], groups: NDArray[np.integer]
) -> NDArray[np.int64]:
    """The place of the highest score of each group that occurs, by rising group.

    >>> first_of_highest(np.array([1.0, 3.0, 3.0, 2.0]), np.array([4, 4, 4, 0])).tolist()
    [3, 1]
    """
    order = np.lexsort((-scores, groups))
    first = np.ones(len(order), dtype=bool)
    first[1:] = groups[order][1:] != groups[order][:-1]
    return order[first]
