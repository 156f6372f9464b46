"""Implied questions as a data root, for VQA systems that run elsewhere."""

from pathlib import Path

from ivqa.data import VQASplit
from ivqa.store.files import write_json


def write_implied(root: Path, split: VQASplit) -> None:
    """Writes questions as a split of a data root in the official VQA layout.

    Writes questions_NAME.json and images/NAME/, for data=vqa_json data.root=ROOT data.test=NAME.

    Args:
        root: The folder.
        split: The questions; see `implied_split`.
    """
    columns = zip(
        split.question_ids.tolist(), split.image_ids.tolist(), split.questions, strict=True
    )
    questions = [
        {"question_id": number, "image_id": image_id, "question": question}
        for number, image_id, question in columns
    ]
    write_json(root / f"questions_{split.name}.json", {"questions": questions}, indent=None)
    if split.images is not None:
        split.images.copy(set(split.image_ids.tolist()), root / "images" / split.name)
