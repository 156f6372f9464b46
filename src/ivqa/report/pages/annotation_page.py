"""A questionnaire about questions, for annotators."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ivqa.data import VQASplit
from ivqa.report.contact_sheet import data_uri
from ivqa.report.pages.base import render, script_json
from ivqa.store.files import write_bytes

_TO_ANNOTATE = 500  # annotated beliefs per model [iVQA 6]


@dataclass(frozen=True)
class ToAnnotate:
    """A question for annotators.

    Attributes:
        image_id: The image.
        answer: The answer of the model.
        question: The question to judge.
        reference: A question of the data set for this image and answer; "" if there is none.
    """

    image_id: int
    answer: str
    question: str
    reference: str = ""


def write_annotation_page(
    path: Path, title: str, asked: Sequence[ToAnnotate], split: VQASplit, seed: int = 0
) -> None:
    """Writes annotate.html, a questionnaire about up to 500 questions drawn at random.

    It asks whether a question is relevant, asks for the same fact as the reference, and is answered
    correctly. The browser keeps the answers until they are exported as JSON. Incomplete answers are
    exported too.

    Args:
        path: The file to write.
        title: The title of the page.
        asked: The questions to choose from.
        split: The split of the images.
        seed: The seed of the choice.
    """
    chosen = random.Random(seed).sample(list(asked), min(len(asked), _TO_ANNOTATE))
    items = [
        {
            "image": item.image_id,
            "answer": item.answer,
            "question": item.question,
            "reference": item.reference,
        }
        for item in chosen
    ]
    images = {item.image_id: picture(split, item.image_id) for item in chosen}
    data = script_json({"images": images, "items": items})
    page = render("annotate.html.j2", title=title, data=data)
    write_bytes(path, page.encode())


def picture(split: VQASplit, image_id: int, size: int = 256, quality: int = 88) -> str:
    """A thumbnail as data URI.

    Args:
        split: The split of the image.
        image_id: The image.
        size: Largest width and height in pixels.
        quality: Of the JPEG, 1 to 95.

    Returns:
        The URI; "" for data without images.
    """
    return "" if split.images is None else data_uri(split.images.path(image_id), size, quality)
