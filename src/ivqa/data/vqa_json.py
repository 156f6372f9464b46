"""Reads the official VQA JSON files into columns."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ivqa.data.images import ImageFiles
from ivqa.data.records import (
    Record,
    check_join,
    read_captions,
    read_layouts,
    records_by_id,
)
from ivqa.data.split import VQASplit
from ivqa.data.validation import Problems, is_id
from ivqa.text.tokens import tokenise

_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*%?")


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
