"""Beliefs that the other beliefs about their image make doubtful, without an oracle."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.logic import PictureAnswers, contradicting, errors_at_least, suspicions


def with_suspects(beliefs: Sequence[Belief]) -> tuple[list[Belief], dict[str, float]]:
    """Marks the beliefs that contradict others, and those that are probably wrong.

    Args:
        beliefs: Beliefs in the order of beliefs.jsonl, of any number of images.

    Returns:
        The beliefs with `suspect` and `contradicts`, in the same order, and figures by name:

        - beliefs/contradictions: Share of beliefs in a contradiction that holds for certain.
        - beliefs/errors_at_least: Share of beliefs that must be wrong at least, whoever looks: the
          least number of each image whose removal leaves no certain contradiction.
        - beliefs/suspects: Share of suspects.
    """
    by_image: dict[int, list[int]] = defaultdict(list)
    for row, belief in enumerate(beliefs):
        by_image[belief.image_id].append(row)
    pictures = [
        PictureAnswers(
            [(beliefs[row].question, beliefs[row].answer) for row in rows],
            np.array([beliefs[row].phi for row in rows]),
        )
        for rows in by_image.values()
    ]
    marked = list(beliefs)
    sure, least = 0, 0
    found = suspicions(pictures)
    for rows, picture, suspicion in zip(by_image.values(), pictures, found, strict=True):
        sure += sum(contradicting(picture.beliefs))
        least += errors_at_least(len(rows), suspicion.contradictions)
        against: dict[int, set[int]] = defaultdict(set)
        for one in suspicion.contradictions:
            for row in one.members:
                against[row] |= {rows[other] + 1 for other in one.members if other != row}
        for place, row in enumerate(rows):
            marked[row] = replace(
                beliefs[row],
                suspect=bool(suspicion.suspect[place]),
                contradicts=tuple(sorted(against[place])),
            )
    total = max(len(beliefs), 1)
    return marked, {
        "beliefs/contradictions": sure / total,
        "beliefs/errors_at_least": least / total,
        "beliefs/suspects": sum(bool(belief.suspect) for belief in marked) / total,
    }


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
    return max(others, key=lambda other: (not other.suspect, other.phi), default=None)


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


def _doubt(pair: tuple[Belief, Belief]) -> float:
    return -min(pair[0].phi, pair[1].phi)
