"""What is exported: the questions of a split at every level of noise, with their images."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image
from rich.console import Console
from rich.progress import track

from ivqa.data import VQADataset, VQASplit
from ivqa.data.extended import write_questions
from ivqa.data.images import open_picture
from ivqa.data.rgb import is_plain
from ivqa.robustness.noise import DisturbsImages
from ivqa.store.files import read_bytes

# Formats that every tool decodes; other images are written as PNG.
_KNOWN_FORMATS = ("JPEG", "PNG")


@dataclass(frozen=True, eq=False)
class QuestionLevels:
    """N questions at levels 0 (without noise), 1, ..., L, with images and right answers.

    Args:
        questions: L + 1 lists of the N questions.
        image_noise: Disturbs the images at levels 1, ..., L; None leaves them unchanged.
    """

    dataset: VQADataset
    split: VQASplit
    questions: Sequence[Sequence[str]]
    image_noise: DisturbsImages | None
    console: Console

    def __len__(self) -> int:
        return len(self.split)

    @property
    def num_levels(self) -> int:
        """L + 1, the number of levels with the one without noise."""
        return len(self.questions)

    def records(self, level: int) -> list[dict[str, Any]]:
        """The questions of a level, from 0 to L, as N records without images.

        They have question_id and image_id (int), question, answer (the main answer; "" where
        there is none), answers (those of all annotators), answer_type, question_type, kind (of
        the belief; "" where the question is not a belief) and level (int).
        """
        split = self.split
        columns = {
            "question_id": split.question_ids.tolist(),
            "image_id": split.image_ids.tolist(),
            "question": self.questions[level],
            "answer": split.main_answers,
            "answers": split.answers,
            "answer_type": split.answer_types,
            "question_type": split.question_types,
            "kind": split.kinds or [""] * len(split),
        }
        rows = zip(*columns.values(), strict=True)
        return [{**dict(zip(columns, row, strict=True)), "level": level} for row in rows]

    def with_images(self, level: int) -> Iterator[tuple[dict[str, Any], str, bytes]]:
        """Yields the records of a level, from 0 to L, with names and bytes of their image files.

        The bytes are those of the file if it is a JPEG or PNG that every reader shows alike and the
        level does not disturb images, else a PNG. Progress is shown.

        Raises:
            UserError: The split has no images, or one cannot be read.
        """
        self.split.require_images()
        known: tuple[int, str, bytes] | None = None
        progress = track(
            self.records(level),
            description=f"writing level {level}",
            console=self.console,
            transient=True,
        )
        for record in progress:
            image_id = record["image_id"]
            # The questions of an image often follow each other: its file is read once.
            if known is None or known[0] != image_id:
                known = (image_id, *self._image(image_id, level))
            yield record, known[1], known[2]

    def _image(self, image_id: int, level: int) -> tuple[str, bytes]:
        path = self.split.require_images().path(image_id)
        picture = open_picture(path, f"image {image_id}")  # refuses damaged files
        if level and self.image_noise is not None:
            picture = self.image_noise.disturbed_image(picture, image_id, level)
        else:
            content = read_bytes(path)
            with Image.open(io.BytesIO(content)) as opened:
                if opened.format in _KNOWN_FORMATS and is_plain(opened):
                    return path.name, content
        encoded = io.BytesIO()
        picture.save(encoded, format="PNG")
        return f"{path.stem}.png", encoded.getvalue()


class Exporter(Protocol):
    """Writes questions in the format of a tool; one class and one file in conf/export."""

    def write(self, levels: QuestionLevels, folder: Path, name: str) -> str:
        """Writes the files of the tool into a folder; returns what to run next, for the terminal.

        `name` is that of the data in the tool: letters, digits and underscores.
        """


def drawn(split: VQASplit, number: int | None, seed: int) -> VQASplit:
    """Draws `number` questions of a split at random, in the order of the split.

    None, or a number that the split does not exceed, keeps all.
    """
    if number is None or number >= len(split):
        return split
    rows = np.sort(np.random.default_rng(seed).permutation(len(split))[:number])
    return split.select(rows)


def write_answer_key(levels: QuestionLevels, folder: Path) -> None:
    """Writes the clean questions and their answers in VQA format, without images.

    questions_NAME.json and annotations_NAME.json, where NAME is the name of the split, score what a
    tool logs: predictions=LOG data=vqa_json data.root=FOLDER data.test=NAME.
    """
    split = levels.split
    write_questions(folder, replace(split, kinds=split.kinds or [""] * len(split)))
