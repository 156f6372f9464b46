"""The page of a human study: people score questions of unknown origin from 0 to 4."""

from collections.abc import Sequence
from pathlib import Path

from ivqa.data import VQASplit
from ivqa.report.pages.annotation_page import ToAnnotate, picture
from ivqa.report.pages.base import render, script_json
from ivqa.store.files import write_bytes

HIGHEST_SCORE = 4  # 0 is nonsense, 4 is perfect [iVQA 4]


def write_study_page(
    path: Path, study: str, asked: Sequence[tuple[str, ToAnnotate]], split: VQASplit
) -> None:
    """Writes annotate.html of a human study.

    The page shows image, answer and question, one item at a time, in the given order, which is the
    same for all people: those who stop early have then rated the same items. It does not show the
    question of the data set, because people would compare with it, as the automatic metrics do.

    Args:
        path: The file to write.
        study: The id of the study, which the exported ratings name.
        asked: Id and question of each item; nothing else of an item gets into the page.
        split: The split of the images.
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
    page = render("study.html.j2", data=data, highest=HIGHEST_SCORE)
    write_bytes(path, page.encode())
