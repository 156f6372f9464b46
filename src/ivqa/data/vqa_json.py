"""The official VQA JSON files as columns."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ivqa.data.images import ImageFiles
from ivqa.data.records import (
    Record,
    annotation_records,
    check_join,
    question_records,
    read_captions,
    read_layouts,
)
from ivqa.data.validation import DataError, Problems, is_id, listed
from ivqa.text.tokens import tokenise

_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*%?")


@dataclass(frozen=True, eq=False)
class VQASplit:
    """N questions of one split, as columns in the order of the questions file.

    name: the split's name in the file names. question_ids, image_ids: (N,) int64.
    questions: texts as written. answers: the annotators' raw answers, n >= 1 a question.
    main_answers: their mode (`multiple_choice_answer`). answer_types: of ANSWER_TYPES.
    question_types: leading words. multiple_choices: candidates, None in open-ended files.
    images: None for text-only data; images_tried: the paths looked at for them.
    captions: by image id. layouts: expert layouts by question id.

    A split without annotations (the test sets) keeps its columns aligned: `has_answers` is False,
    every list of answers is empty, main answers and answer types are "".
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

    def __len__(self) -> int:
        return len(self.questions)

    def require_images(self) -> ImageFiles:
        """The image files. Raises DataError naming the paths tried where there are none."""
        if self.images is None:
            raise DataError(
                f"split '{self.name}' has no images; looked for {listed(self.images_tried)}; "
                "put them there, set data.image_pattern, or choose features=none"
            )
        return self.images

    def require_answers(self) -> "VQASplit":
        """The split itself. Raises DataError where it has no annotations, like the test sets."""
        if not self.has_answers:
            raise DataError(
                f"split '{self.name}' has no annotations, so nothing can be learnt from it or "
                "scored on it; choose another split or add its annotations file"
            )
        return self


def read_split(
    name: str,
    questions_path: Path,
    annotations_path: Path | None = None,
    captions_path: Path | None = None,
    layouts_path: Path | None = None,
    images: ImageFiles | None = None,
    images_tried: tuple[str, ...] = (),
) -> VQASplit:
    """The split `name` from its files; questions and annotations are joined by id, never by order.

    Bare lists (VQA-CP) are read like the official {"questions": [...]}, {"annotations": [...]}.
    `answer_type`, `question_type` and `multiple_choice_answer` are derived where missing:
    yes/no and numbers by form, the two leading words, the mode of the answers.
    Raises DataError with every problem of all the files together.
    """
    problems = Problems()
    questions = question_records(questions_path, problems)
    annotations = None
    if annotations_path is not None:
        annotations = annotation_records(annotations_path, problems)
    if questions and annotations and annotations_path is not None:
        check_join(questions, annotations, questions_path, annotations_path, problems)
    captions = None if captions_path is None else read_captions(captions_path, problems)
    layouts = None if layouts_path is None else read_layouts(layouts_path, problems)
    if images is not None:
        wanted = [record.get("image_id") for record in questions.values()]
        image_ids = np.array([image_id for image_id in wanted if is_id(image_id)], dtype=np.int64)
        for image_id in images.missing(image_ids):
            problems.add(questions_path, f"image {image_id}", "image_id", _missing_image(images))
        images.check_headers(image_ids, problems)
    problems.raise_if_any()
    return _columns(
        name,
        questions,
        annotations,
        images=images,
        images_tried=images_tried,
        captions=captions,
        layouts=layouts,
    )


def answer_type_of(answer: str) -> str:
    """The VQA answer type by the form of the main answer.

    >>> [answer_type_of(answer) for answer in ("no", "12", "3,000", "red")]
    ['yes/no', 'number', 'number', 'other']
    """
    if answer.lower() in ("yes", "no"):
        return "yes/no"
    return "number" if _NUMBER.fullmatch(answer) else "other"


def _missing_image(images: ImageFiles) -> str:
    folder = images.paths[0].parent
    return f"has no file in {folder} ({len(images)} images there); add it or remove the questions"


def _columns(
    name: str,
    questions: Mapping[int, Record],
    annotations: Mapping[int, Record] | None,
    images: ImageFiles | None,
    images_tried: tuple[str, ...],
    captions: dict[int, list[str]] | None,
    layouts: dict[int, list[str]] | None,
) -> VQASplit:
    texts = [record["question"] for record in questions.values()]
    joined = [{} if annotations is None else annotations[key] for key in questions]
    answers = [[item["answer"] for item in record.get("answers", ())] for record in joined]
    main_answers = [
        record.get("multiple_choice_answer", _mode(given))
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
        images=images,
        images_tried=images_tried,
        captions=captions,
        layouts=layouts,
    )


def _mode(answers: list[str]) -> str:
    return Counter(answers).most_common(1)[0][0] if answers else ""
