"""Oracle scores: of many questions asked about a pair, the one closest to a true one [iVQA 6]."""

from collections.abc import Sequence

import numpy as np

from ivqa.metrics.cider import CiderStatistics, cider_scores


def best_matches(
    questions: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    statistics: CiderStatistics,
) -> list[tuple[str, str]]:
    """The (question, reference) of highest CIDEr-D of each of P pairs; pairs without any are left
    out.

    O-C is their mean CIDEr-D, O-B4 their BLEU-4.

    >>> statistics = CiderStatistics.of([["is it red"], ["what shape is it"], ["how many stars"]])
    >>> best_matches([["Is it blue?", "What shape is that?"]], [["What shape is it?"]], statistics)
    [('What shape is that?', 'What shape is it?')]
    """
    flat = [
        (pair, question, reference)
        for pair, (asked, own) in enumerate(zip(questions, references, strict=True))
        for question in asked
        for reference in own
    ]
    if not flat:
        return []
    scores = cider_scores(
        [question for _, question, _ in flat], [[reference] for *_, reference in flat], statistics
    )
    pairs = np.array([pair for pair, _, _ in flat])
    order = np.lexsort((-scores, pairs))
    first = np.r_[True, pairs[order][1:] != pairs[order][:-1]]
    return [flat[at][1:] for at in order[first].tolist()]
