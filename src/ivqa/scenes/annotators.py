"""Simulates the ten annotators of a question: mostly right, with synonyms, not always certain.

VQA has ten answers for each question, each with a confidence (Antol et al., VQA, ICCV 2015).
"""

import random
from collections import Counter

from ivqa.scenes.programs import SYNONYMS
from ivqa.scenes.world import VALUES

NUM_ANNOTATORS = 10
# Probability that an annotator gives a right answer.
_RIGHT_SHARE = {"yes/no": 0.93, "number": 0.86, "other": 0.9}
_SYNONYM_SHARE = 0.12  # of right answers with synonyms, replaced by one of these
# The value that a wrong annotator usually gives for another one.
_CONFUSED_WITH = {
    "orange": "red",
    "red": "orange",
    "purple": "blue",
    "blue": "purple",
    "hexagon": "circle",
    "diamond": "square",
    "sunset": "day",
    "cloudy": "rainy",
    "rainy": "cloudy",
}
# All values of the attribute that a value belongs to.
_ALTERNATIVES = {value: values for values in VALUES.values() for value in values}


def annotate(rng: random.Random, answer: str, answer_type: str) -> list[dict[str, object]]:
    """Simulates the answers of ten annotators to a question of a VQA answer type.

    They disagree as in VQA: some give synonyms, counts that are off by one, similar colours, or
    the wrong one of yes and no.

    Returns:
        `NUM_ANNOTATORS` records {answer, answer_confidence, answer_id} of VQA's format; the right
        `answer` is the most frequent of them.
    """
    # Draws again where another answer is as frequent: VQA's main answer is the mode.
    while True:
        records = [
            _record(rng, answer, answer_type, number + 1) for number in range(NUM_ANNOTATORS)
        ]
        counts = Counter(str(record["answer"]) for record in records)
        if all(counts[answer] > count for other, count in counts.items() if other != answer):
            return records


def _record(rng: random.Random, answer: str, answer_type: str, number: int) -> dict[str, object]:
    right = rng.random() < _RIGHT_SHARE[answer_type]
    given = answer if right else _wrong_answer(rng, answer, answer_type)
    if right and answer in SYNONYMS and rng.random() < _SYNONYM_SHARE:
        given = rng.choice(SYNONYMS[answer])
    # Annotators who are wrong are less certain; "maybe" is twice as frequent as "no".
    certain = rng.random() < (0.93 if right else 0.5)
    confidence = "yes" if certain else rng.choice(("maybe", "maybe", "no"))
    return {"answer": given, "answer_confidence": confidence, "answer_id": number}


def _wrong_answer(rng: random.Random, answer: str, answer_type: str) -> str:
    if answer_type == "yes/no":
        return "no" if answer == "yes" else "yes"
    if answer_type == "number":
        return str(max(0, int(answer) + rng.choice((-1, 1))))
    if answer in _CONFUSED_WITH and rng.random() < 0.7:
        return _CONFUSED_WITH[answer]
    return rng.choice([value for value in _ALTERNATIVES[answer] if value != answer])
