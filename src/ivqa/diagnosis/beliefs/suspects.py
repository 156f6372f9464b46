"""Beliefs that the other beliefs about their image make doubtful, without an oracle."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.diagnosis.search.asking import GivenAnswer
from ivqa.logic import (
    Contradiction,
    PictureAnswers,
    contradictions,
    errors_at_least,
    suspicions,
)


def with_suspects(
    beliefs: Sequence[Belief],
    further: Sequence[Belief] = (),
    witnesses: Sequence[Sequence[GivenAnswer]] = (),
) -> tuple[list[Belief], dict[str, float]]:
    """Marks the beliefs that contradict others, and those that are probably wrong.

    Args:
        beliefs: Beliefs in the order of beliefs.jsonl, of any number of images.
        further: Answers to follow-ups about the same images, which are evidence for and against
            the beliefs.
        witnesses: Answers of other models to all of these questions, those of the beliefs first.

    Returns:
        The beliefs with `suspect`, `contradicts` and `denied_by`, in the same order, and figures by
        name:

        - beliefs/contradictions: Share of beliefs that certainly contradict another belief.
        - beliefs/errors_at_least: Share of beliefs that must be wrong at least, whoever looks: the
          least number of each image whose removal leaves no certain contradiction among beliefs.
        - beliefs/suspects: Share of suspects.
        - follow_ups/count, follow_ups/errors_at_least: With follow-ups, their number, and the
          share of all answers, theirs and the beliefs, that must be wrong at least.
    """
    everything = [*beliefs, *further]
    by_image: dict[int, list[int]] = defaultdict(list)
    for row, belief in enumerate(everything):
        by_image[belief.image_id].append(row)

    def of_images(answers: Sequence[GivenAnswer]) -> list[PictureAnswers]:
        return [
            PictureAnswers(
                [(everything[row].question, answers[row].answer) for row in rows],
                np.array([answers[row].probability for row in rows]),
            )
            for rows in by_image.values()
        ]

    pictures = of_images([GivenAnswer(one.answer, one.phi) for one in everything])
    marked = list(everything)
    sure, least, least_of_all = 0, 0, 0
    found = suspicions(pictures, list(map(of_images, witnesses)))
    for at, (rows, suspicion) in enumerate(zip(by_image.values(), found, strict=True)):
        own = sum(row < len(beliefs) for row in rows)  # beliefs come before follow-ups
        among = suspicion.contradictions
        if len(rows) > own:  # with follow-ups, a contradiction may name them in place of beliefs
            among = contradictions(pictures[at].beliefs[:own])
        sure += len({row for one in among if one.certain for row in one.members})
        least += errors_at_least(own, among)
        if further:
            least_of_all += errors_at_least(len(rows), suspicion.contradictions)
        for place, row in enumerate(rows):
            marked[row] = replace(everything[row], suspect=bool(suspicion.suspect[place]))
        against, denials = _others(among), _others(suspicion.contradictions)
        for place, row in enumerate(rows[:own]):
            lines = sorted(rows[other] + 1 for other in against[place])
            marked[row] = replace(marked[row], contradicts=lines)
            worst = max(
                (marked[rows[other]] for other in denials[place] if other >= own),
                key=_weight,
                default=None,
            )
            if marked[row].suspect and worst is not None:
                denial = worst.question, worst.answer, worst.phi
                marked[row] = replace(marked[row], denied_by=denial)
    del marked[len(beliefs) :]
    total = max(len(beliefs), 1)
    figures = {
        "beliefs/contradictions": sure / total,
        "beliefs/errors_at_least": least / total,
        "beliefs/suspects": sum(bool(belief.suspect) for belief in marked) / total,
    }
    if further:
        figures["follow_ups/count"] = float(len(further))
        figures["follow_ups/errors_at_least"] = least_of_all / len(everything)
    return marked, figures


def convicting(belief: Belief, beliefs: Sequence[Belief]) -> Belief | None:
    """The belief that speaks most against another one.

    Args:
        belief: One of the beliefs.
        beliefs: All of them, in the order of beliefs.jsonl.

    Returns:
        The one that it contradicts that is most probably right, and then the most confident one;
        None if it contradicts none.
    """
    others = [beliefs[line - 1] for line in belief.contradicts]
    return max(others, key=_weight, default=None)


def convicted(beliefs: Sequence[Belief], number: int = 6) -> list[tuple[Belief, Belief]]:
    """The suspects that are contradicted most surely, each of another image.

    Args:
        beliefs: Beliefs in the order of beliefs.jsonl, from `with_suspects`.
        number: How many.

    Returns:
        Pairs of a suspect and the belief that convicts it; the pairs whose less confident belief is
        the most confident come first.
    """
    best: dict[int, tuple[Belief, Belief]] = {}
    for belief in beliefs:
        other = convicting(belief, beliefs) if belief.suspect else None
        if other is not None:
            pair = belief, other
            best[belief.image_id] = min(best.get(belief.image_id, pair), pair, key=_doubt)
    return sorted(best.values(), key=_doubt)[:number]


def _others(found: Sequence[Contradiction]) -> dict[int, set[int]]:
    """The answers that cannot be true together with each one, by position.

    Two of the members of a larger contradiction may both be true.
    """
    against: dict[int, set[int]] = defaultdict(set)
    for one in found:
        if one.certain and len(one.members) == 2:
            first, second = one.members
            against[first].add(second)
            against[second].add(first)
    return against


def _weight(belief: Belief) -> tuple[bool, float]:
    return not belief.suspect, belief.phi


def _doubt(pair: tuple[Belief, Belief]) -> float:
    return -min(pair[0].phi, pair[1].phi)
