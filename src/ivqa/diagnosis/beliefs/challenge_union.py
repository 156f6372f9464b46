"""The challenging sets of several models as one data root in the official VQA format."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ivqa.data import DataError, VQADataset
from ivqa.store.digests import file_digest
from ivqa.store.files import copy_file, read_json, write_json

_SPLITS = ("challenge", "irrelevant", "beliefs")  # those of `write_challenge`
# The keys of an official file beside its questions or annotations.
_HEADER = {
    "info": {"description": "Beliefs of VQA models, found by ivqa", "version": "1.0"},
    "task_type": "Open-Ended",
    "data_type": "ivqa",
    "license": {"name": "that of the images and of the data set that they come from"},
}


def join_challenges(root: Path, challenges: Mapping[str, Path]) -> dict[str, list[dict[str, Any]]]:
    """Joins challenging sets about the same images; a question that several have occurs once.

    A question keeps the right answers of all sets, and in "believed_by" the answer of each model
    that believes it. Its "kind" is the worst one: adversarial before complementary and rephrase.
    `challenges` has the folder that `write_challenge` wrote by the name of the model; questions,
    annotations and images of each split are written to `root`.

    Returns:
        The questions of each split that has any.

    Raises:
        DataError: A folder has no such files, or an image differs between two of them.
    """
    joined: dict[str, list[dict[str, Any]]] = {}
    for split in _SPLITS:
        questions: dict[tuple[int, str], dict[str, Any]] = {}
        answers: dict[int, dict[str, Any]] = {}
        images: dict[int, Path] = {}
        for model, folder in challenges.items():
            if not (folder / f"questions_{split}.json").is_file():
                continue
            _add(model, folder, split, questions, answers)
            _add_images(folder, split, images)
        if not questions:
            continue
        joined[split] = list(questions.values())
        header = {**_HEADER, "data_subtype": split}
        write_json(
            root / f"questions_{split}.json", {**header, "questions": joined[split]}, indent=None
        )
        if answers:
            annotations = {**header, "annotations": list(answers.values())}
            write_json(root / f"annotations_{split}.json", annotations, indent=None)
        for source in images.values():
            target = root / "images" / split / source.name
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_file(source, target)
    if not joined:
        raise DataError(
            f"{', '.join(map(str, challenges.values()))}: no challenging set has a question; "
            "python diagnose.py vqa=mlb writes one"
        )
    return joined


def _add(
    model: str,
    folder: Path,
    split: str,
    questions: dict[tuple[int, str], dict[str, Any]],
    answers: dict[int, dict[str, Any]],
) -> None:
    """Adds the questions of a model to those of the others; a new question gets a new id."""
    dataset = VQADataset(folder, train=None, val=None, test=split)
    dataset.split("test")  # checks the files, and names what is wrong
    asked = read_json(folder / f"questions_{split}.json", dict)["questions"]
    file = folder / f"annotations_{split}.json"
    found = read_json(file, dict)["annotations"] if file.is_file() else []
    annotated = {record["question_id"]: record for record in found}
    for record in asked:
        key = record["image_id"], record["question"]
        new = {**record, "question_id": len(questions) + 1, "believed_by": {}}
        own = questions.setdefault(key, {name: new[name] for name in new if name != "believed"})
        own["believed_by"][model] = record.get("believed", "")
        if record.get("kind") == "adversarial":
            own["kind"] = "adversarial"
        right = annotated.get(record["question_id"])
        if right is None:
            continue
        right = {**right, "question_id": own["question_id"]}
        known = answers.setdefault(own["question_id"], right)
        given = {one["answer"] for one in known["answers"]}
        further = [one for one in right["answers"] if one["answer"] not in given]
        # The official program expects annotators with numbers from 1.
        known["answers"] = [
            {**one, "answer_id": number}
            for number, one in enumerate([*known["answers"], *further], start=1)
        ]


def _add_images(folder: Path, split: str, images: dict[int, Path]) -> None:
    """Adds the images of a split; one that is known must be the same file."""
    dataset = VQADataset(folder, train=None, val=None, test=split).split("test")
    if dataset.images is None:
        return
    for image_id in dict.fromkeys(dataset.image_ids.tolist()):
        own = dataset.images.path(image_id)
        known = images.setdefault(image_id, own)
        if known is not own and file_digest(known) != file_digest(own):
            raise DataError(
                f"image {image_id} differs between {known} and {own}; join diagnoses of the same "
                "data and split"
            )
