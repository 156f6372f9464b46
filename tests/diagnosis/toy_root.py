"""A data root with the toy scene as image 1 and a hand-written split."""

from pathlib import Path

from toy_diagnosis import toy_scene

from ivqa.data import VQADataset
from ivqa.store.files import write_json

# (question, answer) of image 1: a red star left of a blue heart, by day.
OWN_QUESTIONS = [("What color is the star?", "red"), ("Is there a star?", "yes"), ("Night?", "no")]


def toy_root(root: Path, split: str = "val", *, scenes: bool = True) -> VQADataset:
    """Writes the split and opens it as train, val and test; with an oracle if `scenes` is set."""
    questions = [
        {"question_id": number, "image_id": 1, "question": question}
        for number, (question, _) in enumerate(OWN_QUESTIONS)
    ]
    annotations = [
        {"question_id": number, "image_id": 1, "answers": [{"answer": answer}] * 10}
        for number, (_, answer) in enumerate(OWN_QUESTIONS)
    ]
    write_json(root / f"questions_{split}.json", {"questions": questions})
    write_json(root / f"annotations_{split}.json", {"annotations": annotations})
    if scenes:
        write_json(root / f"scenes_{split}.json", {"1": toy_scene().to_json()})
    return VQADataset(root, train=split, val=split, test=split)
