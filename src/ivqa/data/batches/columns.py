"""Collects questions, read one by one, as the columns of a split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ivqa.data.images import ImageFiles
from ivqa.data.split import AnswerMetric, VQASplit
from ivqa.data.validation import Problems, is_id, shown
from ivqa.data.vqa_json import answer_type_of, main_answer_of
from ivqa.text.tokens import tokenise


class Entry(NamedTuple):
    """One question of a published file.

    Args:
        name: Its id as published, for messages.
        question_id: Its id as an integer.
        answers: The answers of its annotators; None in a test split.
        question_type: None for its first two words.
        answer_type: The VQA answer type; None to derive it from the main answer.
        image_file: Name of the image file where the published file gives it.
        extras: Further values by their official names.
    """

    name: str
    question_id: int
    image_id: int
    question: str
    answers: Sequence[str] | None
    question_type: str | None = None
    answer_type: str | None = None
    multiple_choices: list[str] | None = None
    layout: Sequence[str] | None = None
    image_file: str | None = None
    extras: Mapping[str, Any] = {}


@dataclass
class Columns:
    """Collects the entries of a split as columns.

    Equal texts and equal lists are stored once: the 22 million questions of GQA have 1,900 answers.
    Their values must not be changed.
    """

    question_ids: list[int] = field(default_factory=list)
    image_ids: list[int] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    answers: list[list[str]] = field(default_factory=list)
    main_answers: list[str] = field(default_factory=list)
    answer_types: list[str] = field(default_factory=list)
    question_types: list[str] = field(default_factory=list)
    multiple_choices: list[list[str]] = field(default_factory=list)
    layouts: dict[int, list[str]] = field(default_factory=dict)
    image_files: dict[int, str] = field(default_factory=dict)
    extras: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._seen: set[int] = set()
        self._words: dict[str, str] = {}
        self._texts: dict[str, tuple[str, str]] = {}  # a question and its first two words
        self._answers: dict[tuple[str, ...], tuple[list[str], str, str]] = {}
        self._layouts: dict[tuple[str, ...], list[str]] = {}

    def add(self, entry: Entry, path: Path, problems: Problems) -> None:
        """Adds a question of a file.

        The faults are a repeated id, a text without words, an answer in some questions only.
        """
        where = f"question {entry.name}"
        if entry.question_id in self._seen:
            problems.add(path, where, "", "occurs more than once; remove the copy")
            return
        self._seen.add(entry.question_id)
        for field_name in ("question_id", "image_id"):
            if not is_id(getattr(entry, field_name)):
                problems.add(path, where, field_name, "must fit 64 bits; renumber the data")
                return
        if entry.image_file is not None:
            known_file = self.image_files.setdefault(entry.image_id, entry.image_file)
            if known_file != entry.image_file:
                fault = f"is {entry.image_file} here, {known_file} for another question"
                problems.add(path, where, f"image {entry.image_id}", f"{fault}; repair the file")
        known = self._texts.get(entry.question)
        if known is None:
            words = tokenise(entry.question)
            if not words:
                problems.add(path, where, "", f"has no words: {shown(entry.question)}; remove it")
            known = self._texts[entry.question] = entry.question, " ".join(words[:2])
        if bool(self.answers) and (entry.answers is None) != (not self.answers[0]):
            fault = (
                "has no answer, while others have one"
                if entry.answers is None
                else ("has an answer, while others have none")
            )
            problems.add(path, where, "", f"{fault}; remove it or complete the file")
        answers, main, kind = self._answered(tuple(entry.answers or ()))
        self.question_ids.append(entry.question_id)
        self.image_ids.append(entry.image_id)
        self.questions.append(known[0])
        start = known[1] if entry.question_type is None else entry.question_type
        self.question_types.append(self._words.setdefault(start, start))
        self.answers.append(answers)
        self.main_answers.append(main)
        self.answer_types.append(kind if entry.answer_type is None else entry.answer_type)
        if entry.multiple_choices is not None:
            self.multiple_choices.append(entry.multiple_choices)
        if entry.layout is not None:
            key = tuple(entry.layout)
            self.layouts[entry.question_id] = self._layouts.setdefault(key, list(key))
        for name, value in entry.extras.items():
            shared = self._words.setdefault(value, value) if isinstance(value, str) else value
            self.extras.setdefault(name, []).append(shared)

    def split(
        self,
        name: str,
        images: ImageFiles | None,
        images_tried: tuple[str, ...],
        metric: AnswerMetric | None = None,
    ) -> VQASplit:
        """Returns the columns as a split; see `VQASplit`. Without a metric it is VQA accuracy."""
        return VQASplit(
            name=name,
            question_ids=np.array(self.question_ids, dtype=np.int64),
            image_ids=np.array(self.image_ids, dtype=np.int64),
            questions=self.questions,
            answers=self.answers,
            main_answers=self.main_answers,
            answer_types=self.answer_types,
            question_types=self.question_types,
            has_answers=bool(self.answers[0]),
            multiple_choices=self.multiple_choices or None,
            images=images,
            images_tried=images_tried,
            layouts=self.layouts or None,
            extras=self.extras,
            metric=metric or AnswerMetric(),
        )

    def _answered(self, answers: tuple[str, ...]) -> tuple[list[str], str, str]:
        """The answers as a list, the main answer and its type."""
        known = self._answers.get(answers)
        if known is None:
            main = main_answer_of(answers)
            known = list(answers), main, answer_type_of(main) if answers else ""
            self._answers[answers] = known
        return known
