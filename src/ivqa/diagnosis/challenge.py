"""The challenging test set: wrong beliefs with the right answers [iVQA 6, Table 5]."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ivqa.data import VQASplit
from ivqa.data.vqa_json import answer_type_of
from ivqa.diagnosis.beliefs import Belief
from ivqa.files import copy_file, write_json
from ivqa.scenes import Judgement, Oracle
from ivqa.text.tokens import tokenise

# Annotators who give each right answer. The official accuracy leaves one annotator out and is 1
# if three others agree, so four votes make every right answer score 1.
_VOTES = 4


def write_challenge(
    root: Path, beliefs: Sequence[Belief], split: VQASplit, oracle: Oracle | None
) -> int:
    """Writes the wrong beliefs as a data set in VQA format.

    Split "challenge": adversarial beliefs with right answers. Four annotators give each answer
    that the oracle accepts, so that each of them scores 1; the oracle's own answer is the main
    answer. Split "irrelevant": beliefs without a right answer, that is, beliefs with a false
    premise and adversarial beliefs whose right answer is unknown. Identical questions about an
    image occur once. The images are copied, so that the data set can be moved.

    Args:
        root: Folder to write.
        beliefs: The beliefs with their types.
        split: The split that the beliefs are about.
        oracle: Gives the right answers; None without one.

    Returns:
        Number of questions in the split "challenge".
    """
    wrong = {
        (belief.image_id, belief.question): belief
        for belief in beliefs
        if belief.type in ("adversarial", "irrelevant")
    }
    questions: dict[str, list[dict[str, Any]]] = {"challenge": [], "irrelevant": []}
    annotations: list[dict[str, Any]] = []
    for number, belief in enumerate(wrong.values(), start=1):
        record = {
            "question_id": number,
            "image_id": belief.image_id,
            "question": belief.question,
            "believed": belief.answer,
        }
        right = _right_answers(belief, oracle)
        questions["challenge" if right else "irrelevant"].append(record)
        if right is not None:
            annotations.append(_annotation(number, belief, right))
    for name, records in questions.items():
        if not records:
            continue
        write_json(root / f"questions_{name}.json", {"questions": records})
        _copy_images(root, name, {record["image_id"] for record in records}, split)
    if annotations:
        write_json(root / "annotations_challenge.json", {"annotations": annotations})
    return len(annotations)


def _right_answers(belief: Belief, oracle: Oracle | None) -> Judgement | None:
    """The oracle's judgement of an adversarial belief, None where the answer is unknown."""
    if belief.type != "adversarial" or oracle is None:
        return None
    judged = oracle.judge(belief.image_id, belief.question)
    return judged if judged.premise else None


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
        "answers": [
            {"answer": answer, "answer_confidence": "yes", "answer_id": annotator}
            for annotator, answer in enumerate(votes, start=1)
        ],
    }


def _copy_images(root: Path, name: str, image_ids: set[int], split: VQASplit) -> None:
    if split.images is None:
        return
    folder = root / "images" / name
    folder.mkdir(parents=True, exist_ok=True)
    for image_id in sorted(image_ids):
        source = split.images.path(image_id)
        copy_file(source, folder / source.name)
