"""Ten people answer a question: mostly right, in their own words, not always sure."""

import random
from collections import Counter

from ivqa.scenes.programs import SYNONYMS
from ivqa.scenes.world import VALUES

NUM_ANNOTATORS = 10
_RIGHT = {"yes/no": 0.93, "number": 0.86, "other": 0.9}
_SYNONYM = 0.12
_CONFUSED = {
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
_VALUES_WITH = {value: values for values in VALUES.values() for value in values}


def annotate(rng: random.Random, answer: str, answer_type: str) -> list[dict[str, object]]:
    """Ten records {answer, answer_confidence, answer_id}; `answer` is always the most frequent.

    People disagree as in VQA: synonyms, counts off by one, confused colours, the odd wrong yes.
    """
    while True:
        records = [
            _person(rng, answer, answer_type, number + 1) for number in range(NUM_ANNOTATORS)
        ]
        counts = Counter(str(record["answer"]) for record in records)
        if all(counts[answer] > count for other, count in counts.items() if other != answer):
            return records


def _person(rng: random.Random, answer: str, answer_type: str, number: int) -> dict[str, object]:
    right = rng.random() < _RIGHT[answer_type]
    given = answer if right else _mistaken(rng, answer, answer_type)
    if right and answer in SYNONYMS and rng.random() < _SYNONYM:
        given = rng.choice(SYNONYMS[answer])
    sure = rng.random() < (0.93 if right else 0.5)
    confidence = "yes" if sure else rng.choice(("maybe", "maybe", "no"))
    return {"answer": given, "answer_confidence": confidence, "answer_id": number}


def _mistaken(rng: random.Random, answer: str, answer_type: str) -> str:
    if answer_type == "yes/no":
        return "no" if answer == "yes" else "yes"
    if answer_type == "number":
        return str(max(0, int(answer) + rng.choice((-1, 1))))
    if answer in _CONFUSED and rng.random() < 0.7:
        return _CONFUSED[answer]
    return rng.choice([value for value in _VALUES_WITH[answer] if value != answer])
