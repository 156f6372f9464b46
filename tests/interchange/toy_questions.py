"""Six questions about three images, at two levels, written by hand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console

from ivqa.data import VQADataset
from ivqa.interchange import QuestionLevels
from ivqa.store.files import write_json

# Answers of ten annotators: accuracy 1 of "yes", 0.6 of "2", 0.3 of "Red", 0.9 of "dark blue".
ANSWERS = [
    ["yes"] * 10,
    ["2"] * 2 + ["3"] * 8,
    ["red"] + ["orange"] * 9,
    ["dark blue"] * 3 + ["blue"] * 7,
    ["no"] * 9 + ["yes"],
    ["a dog", "dog"] * 5,
]
QUESTIONS = [
    "Is it red?",
    "How many\tare there?",
    'What "color" is it?',
    "What color is the sky?",
    "Is it wet?",
    "What is it?",
]
KINDS = ["rephrase", "adversarial", "adversarial", "complementary", "rephrase", ""]


def write_root(folder: Path) -> Path:
    """A root in the official layout; image 3 is a GIF, the others are PNG."""
    images = folder / "images" / "test"
    images.mkdir(parents=True)
    for image_id, ending in ((1, "png"), (2, "png"), (3, "gif")):
        pixels = np.full((8, 10, 3), 40 * image_id, dtype=np.uint8)
        Image.fromarray(pixels).save(images / f"{image_id:012d}.{ending}")
    ids = [(100 + row, 1 + row // 2) for row in range(6)]
    questions = [
        {"question_id": key, "image_id": image, "question": text, "kind": kind}
        for (key, image), text, kind in zip(ids, QUESTIONS, KINDS, strict=True)
    ]
    annotations = [
        {"question_id": key, "image_id": image, "answers": [{"answer": one} for one in given]}
        for (key, image), given in zip(ids, ANSWERS, strict=True)
    ]
    write_json(folder / "questions_test.json", {"questions": questions})
    write_json(folder / "annotations_test.json", {"annotations": annotations})
    return folder


def levels_of(root: Path, *more: Sequence[str]) -> QuestionLevels:
    """The questions of a root, and further levels."""
    dataset = VQADataset(root, train=None, val=None, test="test")
    split = dataset.split("test")
    return QuestionLevels(dataset, split, [split.questions, *more], None, Console(quiet=True))
