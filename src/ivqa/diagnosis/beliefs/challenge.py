"""The challenging test set: wrong beliefs with the right answers [iVQA 6, Table 5].

Beside it: all beliefs whose right answer is known, so that the accuracy of any model is known for
each kind of belief.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ivqa.data import VQASplit
from ivqa.data.records import answer_records, write_records
from ivqa.data.vqa_json import answer_type_of
from ivqa.diagnosis.beliefs.beliefs import Belief
from ivqa.scenes import Judgement, Oracle
from ivqa.text.tokens import tokenise

# Annotators who give each right answer. The official accuracy leaves one annotator out and is 1
# if three others agree, so four votes make every right answer score 1.
_VOTES = 4


def write_challenge(
    root: Path,
    beliefs: Sequence[Belief],
    split: VQASplit,
    oracle: Oracle | None,
    corrections: Mapping[Belief, Sequence[str]] | None = None,
) -> int:
    """Writes the beliefs as a data set in VQA format.

    Split "challenge": adversarial beliefs with right answers. Four annotators give each answer that
    the oracle accepts, so that each of them scores 1; the oracle's own answer is the main answer.
    Without an oracle the right answers are those that people entered, the most frequent one is the
    main answer. Split "irrelevant": beliefs without a right answer, that is, beliefs with a false
    premise and adversarial beliefs whose right answer is unknown. Split "beliefs": those of
    "challenge", and the correct beliefs (rephrase, complementary); without an oracle, the right
    answer of a correct belief is its own. The key "kind" of a question is the type of the belief.
    Identical questions about an image occur once. The images are copied, so that the data set can
    be moved.

    Args:
        root: Folder to write.
        beliefs: The beliefs with their types.
        split: The split that the beliefs are about.
        oracle: Gives the right answers; None without one.
        corrections: The right answers of adversarial beliefs that people entered, see
            `corrected_answers`.

    Returns:
        Number of questions in the split "challenge".
    """
    splits: dict[str, list[tuple[Belief, Judgement | None]]] = {
        "challenge": [],
        "irrelevant": [],
        "beliefs": [],
    }
    distinct = {(belief.image_id, belief.question): belief for belief in beliefs if belief.type}
    for belief in distinct.values():
        right = _right_answers(belief, oracle, (corrections or {}).get(belief, ()))
        if belief.type in ("adversarial", "irrelevant"):
            splits["challenge" if right else "irrelevant"].append((belief, right))
        if right is not None:
            splits["beliefs"].append((belief, right))
    for name, asked in splits.items():
        if asked:
            _write_split(root, name, asked, split)
    return len(splits["challenge"])


def _write_split(
    root: Path, name: str, asked: list[tuple[Belief, Judgement | None]], split: VQASplit
) -> None:
    """Writes the questions of a split, with their right answers where they are known."""
    numbered = list(enumerate(asked, start=1))
    questions = [
        {
            "question_id": number,
            "image_id": belief.image_id,
            "question": belief.question,
            "believed": belief.answer,
            "kind": belief.type,
        }
        for number, (belief, _) in numbered
    ]
    annotations = [
        _annotation(number, belief, right) for number, (belief, right) in numbered if right
    ]
    write_records(root, name, questions, annotations)
    if split.images is not None:
        image_ids = {belief.image_id for belief, _ in asked}
        split.images.copy(image_ids, root / "images" / name)


def _right_answers(
    belief: Belief, oracle: Oracle | None, corrected: Sequence[str]
) -> Judgement | None:
    """The right answers of a belief, None where there is none or it is unknown."""
    if belief.type == "irrelevant":
        return None
    if oracle is not None:
        judged = oracle.judge(belief.image_id, belief.question)
        return judged if judged.premise else None
    if belief.type == "adversarial":
        if not corrected:
            return None
        # Of equally frequent answers, the first one given.
        ((main, _),) = Counter(corrected).most_common(1)
        return Judgement(True, True, main, frozenset(corrected))
    return Judgement(True, True, belief.answer, frozenset({belief.answer}))


def _annotation(number: int, belief: Belief, right: Judgement) -> dict[str, Any]:
    """The annotation record of question `number` in the official VQA format."""
    assert right.answer is not None  # a true premise has an answer
    votes = [answer for answer in sorted(right.acceptable) for _ in range(_VOTES)]
    return {
        "question_id": number,
        "image_id": belief.image_id,
        "question_type": " ".join(tokenise(belief.question)[:2]),
        "answer_type": answer_type_of(right.answer),
        "multiple_choice_answer": right.answer,
        "answers": answer_records(votes),
    }
