"""Questionnaires about questions: for annotators, and for a human study."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from PIL import Image

from ivqa.data import VQASplit
from ivqa.report.contact_sheet import data_uri
from ivqa.report.pages.base import script_json, write_page

_SECONDS = 10  # that a person takes for a belief
HIGHEST_SCORE = 4  # of the study: 0 is nonsense, 4 is perfect [iVQA 4]


class Pictures(Protocol):
    """Finds pictures by image id."""

    def path(self, image_id: int) -> Path | Image.Image:
        """Returns the file of a picture, or the picture in memory."""


class HasPictures(Protocol):
    """A split of a data set, or pictures without one."""

    @property
    def images(self) -> Pictures | None:
        """The pictures; None for text-only data."""


@dataclass(frozen=True)
class ToAnnotate:
    """A question for annotators.

    Attributes:
        reference: A question of the data set for this image and answer; "" if there is none.
        weight: Inverse of the probability with which the question was drawn, up to a factor; the
            page exports it.
    """

    image_id: int
    answer: str
    question: str
    reference: str = ""
    weight: float = 1.0


def write_annotation_page(
    path: Path, title: str, asked: Sequence[ToAnnotate], split: HasPictures
) -> None:
    """Writes annotate.html, a questionnaire about questions in the given order.

    It asks whether a question is relevant, asks for the same fact as the reference, and is answered
    correctly. The browser keeps the answers of each person until they are exported as JSON, with
    the person's name if it is given. Incomplete answers are exported too.
    """
    items = [
        {
            "image": item.image_id,
            "answer": item.answer,
            "question": item.question,
            "reference": item.reference,
            "weight": item.weight,
        }
        for item in asked
    ]
    images = {item.image_id: picture(split, item.image_id) for item in asked}
    data = script_json({"images": images, "items": items})
    minutes = max(1, round(len(items) * _SECONDS / 60))
    time = "a minute" if minutes == 1 else f"{minutes:,} minutes"
    length = f"{len(items):,} beliefs, about {time} at {_SECONDS} seconds each."
    write_page(path, "annotate.html.j2", title=title, length=length, data=data)


def picture(split: HasPictures, image_id: int, size: int = 256, quality: int = 88) -> str:
    """A thumbnail as data URI, see `data_uri`; "" for data without images."""
    return "" if split.images is None else data_uri(split.images.path(image_id), size, quality)


def write_study_page(
    path: Path, study: str, asked: Sequence[tuple[str, ToAnnotate]], split: VQASplit
) -> None:
    """Writes annotate.html of a human study.

    The page shows image, answer and question, one item at a time, in the given order, which is the
    same for all people: those who stop early have then rated the same items. It does not show the
    question of the data set, because people would compare with it, as the automatic metrics do.

    Args:
        study: The id of the study, which the exported ratings name.
        asked: Id and question of each item; nothing else of an item gets into the page.
    """
    # Images are numbered by their first item: the ids of the data set stay out of the page.
    images: dict[int, int] = {}
    for _, item in asked:
        images.setdefault(item.image_id, len(images))
    items = [
        {
            "id": name,
            "image": images[item.image_id],
            "answer": item.answer,
            "question": item.question,
        }
        for name, item in asked
    ]
    pictures = [picture(split, image) for image in images]
    data = script_json({"study": study, "images": pictures, "items": items})
    write_page(path, "study.html.j2", data=data, highest=HIGHEST_SCORE)
