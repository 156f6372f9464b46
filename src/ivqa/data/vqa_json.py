"""Reads the official VQA JSON files into columns."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ivqa.data.answer_metric import AnswerMetric
from ivqa.data.images import ImageFiles
from ivqa.data.records import (
    Record,
    check_join,
    read_captions,
    read_layouts,
    records_by_id,
)
from ivqa.data.validation import DataError, Problems, is_id, listed
from ivqa.text.tokens import tokenise

_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*%?")


@dataclass(frozen=True, eq=False)
class VQASplit:
    """N questions of one split, as columns in the order of the questions file.

    In a split without annotations (the official test sets), `has_answers` is False; each question
    has an empty list of answers, and its main answer and answer type are "".

    Args:
        name: Name of the split in the file names.
        question_ids: (N,) int64.
        image_ids: Ids of the questions' images in the data set, (N,) int64.
        questions: The texts as written.
        answers: The unprocessed answers of the n >= 1 annotators of each question.
        main_answers: The most frequent answer of each question (`multiple_choice_answer`).
        answer_types: The answer type of each question, one of ANSWER_TYPES.
        question_types: The leading words of each question.
        has_answers: Whether the split has annotations.
        multiple_choices: Candidate answers of each question; None in open-ended files.
        images: The image files; None for text-only data.
        images_tried: The paths that were searched for images, for error messages.
        captions: Captions by image id, or None.
        layouts: Expert layouts by question id, or None.
        extras: Further columns as published, by their official names, such as "rationales"; each
            has N values.
        kinds: The kind of belief of each question (key "kind" of the questions file), "" where it
            is unknown; None in files without kinds.
        metric: How answers to the questions are scored.
        server_results: Formats answers for the server of the data set, with its own ids, see
            `ivqa.data.results.results_text`; None for the official list.
    """

    name: str
    question_ids: NDArray[np.int64]
    image_ids: NDArray[np.int64]
    questions: list[str]
    answers: list[list[str]]
    main_answers: list[str]
    answer_types: list[str]
    question_types: list[str]
    has_answers: bool = True
    multiple_choices: list[list[str]] | None = None
    images: ImageFiles | None = None
    images_tried: tuple[str, ...] = ()
    captions: dict[int, list[str]] | None = None
    layouts: dict[int, list[str]] | None = None
    extras: Mapping[str, list[Any]] = field(default_factory=dict)
    kinds: list[str] | None = None
    metric: AnswerMetric = field(default_factory=AnswerMetric)
    server_results: "ServerResults | None" = None

    def __len__(self) -> int:
        return len(self.questions)

    def select(self, rows: NDArray[np.int64]) -> "VQASplit":
        """Returns the questions `rows` (N',) in that order."""
        columns: dict[str, Any] = {
            name: [values[row] for row in rows.tolist()]
            for name, values in vars(self).items()
            if isinstance(values, list)
        }
        extras = {name: [held[row] for row in rows.tolist()] for name, held in self.extras.items()}
        return replace(
            self,
            question_ids=self.question_ids[rows],
            image_ids=self.image_ids[rows],
            extras=extras,
            **columns,
        )

    def require_images(self) -> ImageFiles:
        """Returns the image files.

        Raises:
            DataError: There are none; the message lists the paths that were searched.
        """
        if self.images is None:
            raise DataError(
                f"split '{self.name}' has no images; looked for {listed(self.images_tried)}; "
                "put them there, set data.image_pattern, or choose features=none"
            )
        return self.images

    def require_answers(self) -> "VQASplit":
        """Returns the split itself.

        Raises:
            DataError: The split has no annotations.
        """
        if not self.has_answers:
            raise DataError(
                f"split '{self.name}' has no annotations, so no model can be trained or scored "
                "on it; choose another split or add its annotations file"
            )
        return self


# The JSON value that a server reads, from a split and its answers, or the chosen ones of multiple
# choices, or both.
ServerResults = Callable[[VQASplit, Sequence[str] | None, Sequence[str] | None], Any]


def read_split(
    name: str,
    questions_path: Path,
    annotations_path: Path | None = None,
    captions_path: Path | None = None,
    layouts_path: Path | None = None,
    images: ImageFiles | None = None,
    images_tried: tuple[str, ...] = (),
) -> VQASplit:
    """Reads and validates a split; questions and annotations are joined by id, never by order.

    Lists without an object around them (VQA-CP) are read like the official {"questions": [...]} and
    {"annotations": [...]}. Missing fields are derived: `answer_type` by `answer_type_of`,
    `question_type` from the first two words, `multiple_choice_answer` as the most frequent answer.
    `images_tried` are the paths that were searched for images.

    Raises:
        DataError: The files have problems; the message covers all files.
    """
    problems = Problems()
    questions = records_by_id(questions_path, "questions", problems)
    annotations = None
    if annotations_path is not None:
        annotations = records_by_id(annotations_path, "annotations", problems)
    if questions and annotations and annotations_path is not None:
        check_join(questions, annotations, questions_path, annotations_path, problems)
    captions = None if captions_path is None else read_captions(captions_path, problems)
    layouts = None if layouts_path is None else read_layouts(layouts_path, problems)
    if images is not None:
        wanted = [record.get("image_id") for record in questions.values()]
        image_ids = np.array([image_id for image_id in wanted if is_id(image_id)], dtype=np.int64)
        check_images(images, image_ids, questions_path, problems)
    problems.raise_if_any()
    return replace(
        _columns(name, questions, annotations),
        images=images,
        images_tried=images_tried,
        captions=captions,
        layouts=layouts,
    )


def check_images(
    images: ImageFiles, image_ids: NDArray[np.int64], questions_path: Path, problems: Problems
) -> None:
    """Reports images of questions that have no file, and files that are not images.

    `image_ids` are those of the questions in a file, any shape, int64.
    """
    for image_id in images.missing(image_ids):
        folder, number = images.paths[0].parent, len(images)
        fault = f"has no file in {folder} ({number} images there); add it or remove the questions"
        problems.add(questions_path, f"image {image_id}", "image_id", fault)
    images.check_headers(image_ids, problems)


def main_answer_of(answers: Sequence[str]) -> str:
    """Returns the most frequent answer; the earliest of several, and "" without answers."""
    return Counter(answers).most_common(1)[0][0] if answers else ""


def answer_type_of(answer: str) -> str:
    """Derives the VQA answer type, "yes/no", "number" or "other", from the main answer as written.

    Example:
        >>> [answer_type_of(answer) for answer in ("no", "12", "3,000", "red")]
        ['yes/no', 'number', 'number', 'other']
    """
    if answer.lower() in ("yes", "no"):
        return "yes/no"
    return "number" if _NUMBER.fullmatch(answer) else "other"


def _columns(
    name: str, questions: Mapping[int, Record], annotations: Mapping[int, Record] | None
) -> VQASplit:
    texts = [record["question"] for record in questions.values()]
    joined = [{} if annotations is None else annotations[key] for key in questions]
    answers = [[item["answer"] for item in record.get("answers", ())] for record in joined]
    main_answers = [
        record.get("multiple_choice_answer", main_answer_of(given))
        for record, given in zip(joined, answers, strict=True)
    ]
    answer_types = [
        record.get("answer_type", answer_type_of(answer)) if annotations is not None else ""
        for record, answer in zip(joined, main_answers, strict=True)
    ]
    question_types = [
        record.get("question_type", " ".join(tokenise(text)[:2]))
        for record, text in zip(joined, texts, strict=True)
    ]
    choices = [record.get("multiple_choices") for record in questions.values()]
    kinds = [record.get("kind", "") for record in questions.values()]
    return VQASplit(
        name=name,
        question_ids=np.array(list(questions), dtype=np.int64),
        image_ids=np.array([record["image_id"] for record in questions.values()], dtype=np.int64),
        questions=texts,
        answers=answers,
        main_answers=main_answers,
        answer_types=answer_types,
        question_types=question_types,
        has_answers=annotations is not None,
        multiple_choices=[list(row or []) for row in choices] if any(choices) else None,
        kinds=kinds if any(kinds) else None,
    )
