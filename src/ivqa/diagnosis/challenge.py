"""The challenging test set: beliefs that are wrong, with the right answers [iVQA 6, Table 5]."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ivqa.data import VQASplit
from ivqa.data.scenes import Oracle
from ivqa.data.vqa_json import answer_type_of
from ivqa.diagnosis.beliefs import Belief
from ivqa.files import copy_file, write_json
from ivqa.text.tokens import tokenise


def write_challenge(
    root: Path, beliefs: Sequence[Belief], split: VQASplit, oracle: Oracle | None
) -> int:
    """Writes a VQA-format root of the wrong beliefs; returns how many have a right answer.

    Split `challenge`: adversarial beliefs and their right answers, one annotator, the oracle.
    Split `irrelevant`: beliefs without a true premise, which have no right answer; so have
    adversarial beliefs where nobody has said what is right. Identical questions about one image
    are asked once. The images asked about are copied, so that the root stands alone.
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
        right = _right_answer(belief, oracle)
        questions["challenge" if right else "irrelevant"].append(record)
        if right:
            annotations.append(_annotation(number, belief, right))
    for name, records in questions.items():
        if not records:
            continue
        write_json(root / f"questions_{name}.json", {"questions": records})
        _copy_images(root, name, {record["image_id"] for record in records}, split)
    if annotations:
        write_json(root / "annotations_challenge.json", {"annotations": annotations})
    return len(annotations)


def _right_answer(belief: Belief, oracle: Oracle | None) -> str | None:
    if belief.type != "adversarial" or oracle is None:
        return None
    return oracle.judge(belief.image_id, belief.question).answer


def _annotation(number: int, belief: Belief, right: str) -> dict[str, Any]:
    return {
        "question_id": number,
        "image_id": belief.image_id,
        "question_type": " ".join(tokenise(belief.question)[:2]),
        "answer_type": answer_type_of(right),
        "multiple_choice_answer": right,
        "answers": [{"answer": right, "answer_confidence": "yes", "answer_id": 1}],
    }


def _copy_images(root: Path, name: str, image_ids: set[int], split: VQASplit) -> None:
    if split.images is None:
        return
    folder = root / "images" / name
    folder.mkdir(parents=True, exist_ok=True)
    for image_id in sorted(image_ids):
        source = split.images.path(image_id)
        copy_file(source, folder / source.name)
