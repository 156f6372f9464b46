"""The records of the VQA JSON files: read and validated, or written."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from annotated_types import Len
from pydantic import AfterValidator, TypeAdapter
from typing_extensions import TypedDict

from ivqa.data.batches.batch import ANSWER_TYPES
from ivqa.data.json_files import open_json
from ivqa.data.validation import DataError, Id, Problems, checked, is_id, listed, shown
from ivqa.store.files import write_json
from ivqa.text.tokens import tokenise

Record = dict[str, Any]


def _with_words(text: str) -> str:
    if not tokenise(text):
        raise ValueError(f"has no words: {shown(text)}")
    return text


def _one_at_least(answers: list[Any]) -> list[Any]:
    if not answers:
        raise ValueError("has no answers; remove the question or add one at least")
    return answers


def _known_type(kind: str) -> str:
    if kind not in ANSWER_TYPES:
        known = ", ".join(ANSWER_TYPES)
        raise ValueError(f"must be one of {known}, not {kind!r}; or leave it out")
    return kind


class _Answer(TypedDict):
    answer: str


Answers = Annotated[list[_Answer], AfterValidator(_one_at_least)]
"""The answers of the annotators of a question."""


class _Numbered(TypedDict):
    question_id: Id


class _Question(_Numbered):
    image_id: Id
    question: Annotated[str, AfterValidator(_with_words)]
    multiple_choices: NotRequired[list[str] | None]
    kind: NotRequired[str]


class _Annotation(_Numbered):
    answers: Answers
    multiple_choice_answer: NotRequired[str]
    question_type: NotRequired[str]
    answer_type: NotRequired[Annotated[str, AfterValidator(_known_type)]]


class _Caption(TypedDict):
    image_id: Id
    caption: str


_CAPTION = TypeAdapter(_Caption)
_SCHEMAS: dict[str, TypeAdapter[Any]] = {
    "questions": TypeAdapter(_Question),
    "annotations": TypeAdapter(_Annotation),
}
_LAYOUT = TypeAdapter(Annotated[list[str], Len(1)])


def records_by_id(
    path: Path, kind: Literal["questions", "annotations"], problems: Problems
) -> dict[int, Record]:
    """Reads the records of a file by question id, in the order of the file."""
    found: dict[int, Record] = {}
    for position, record in enumerate(_records(path, kind, problems)):
        number = record.get("question_id") if isinstance(record, dict) else None
        where = f"question {number}" if is_id(number) else f"entry {position}"
        if is_id(number) and number in found:
            problems.add(path, where, "question_id", "occurs more than once")
            continue
        # The record itself is kept: validated copies of all records would double the memory.
        checked(_SCHEMAS[kind], record, path, where, problems)
        if is_id(number):
            found[number] = record
    return found


def check_join(
    questions: Mapping[int, Record],
    annotations: Mapping[int, Record],
    questions_path: Path,
    annotations_path: Path,
    problems: Problems,
) -> None:
    """Reports questions and annotations without each other, and differing image ids."""
    for question_id, question in questions.items():
        annotation = annotations.get(question_id)
        where = f"question {question_id}"
        if annotation is None:
            fault = f"has no annotation in {annotations_path.name}"
            problems.add(questions_path, where, "question_id", fault)
        elif is_id(question.get("image_id")) and (
            annotation.get("image_id", question["image_id"]) != question["image_id"]
        ):
            fault = f"is {shown(annotation['image_id'])} here, {question['image_id']} with the text"
            problems.add(annotations_path, where, "image_id", fault)
    for question_id in sorted(annotations.keys() - questions.keys()):
        fault = f"has no question in {questions_path.name}"
        problems.add(annotations_path, f"question {question_id}", "question_id", fault)


def read_captions(path: Path, problems: Problems) -> dict[int, list[str]]:
    """Reads a file of captions in COCO format; returns those of each image by its id."""
    captions: dict[int, list[str]] = {}
    for position, record in enumerate(_records(path, "annotations", problems)):
        name = record.get("id", position) if isinstance(record, dict) else position
        found = checked(_CAPTION, record, path, f"caption {name}", problems)
        if found is not None:
            captions.setdefault(found["image_id"], []).append(found["caption"])
    return captions


def read_layouts(path: Path, problems: Problems) -> dict[int, list[str]]:
    """Reads expert layouts, lists of module names in reverse Polish order, by question id."""
    try:
        content = open_json(path)
    except DataError as error:
        problems.add(str(error), "", "", "")
        return {}
    if not isinstance(content, dict):
        problems.add(path, "", "", f"must be an object of question ids, not {shown(content)}")
        return {}
    layouts: dict[int, list[str]] = {}
    for key, tokens in content.items():
        if not re.fullmatch(r"-?\d+", key):
            problems.add(path, f"question {key}", "question_id", "must be an integer")
        elif checked(_LAYOUT, tokens, path, f"question {key}", problems):
            layouts[int(key)] = tokens
    return layouts


def answer_records(answers: Iterable[str]) -> list[Record]:
    """The answers of annotators 1, 2, ... in the official format, all of them certain."""
    return [
        {"answer": answer, "answer_confidence": "yes", "answer_id": annotator}
        for annotator, answer in enumerate(answers, start=1)
    ]


def write_records(
    root: Path, name: str, questions: Sequence[Record], annotations: Sequence[Record]
) -> None:
    """Writes annotations_NAME.json, unless there are none, and then questions_NAME.json."""
    for kind, found in (("annotations", annotations), ("questions", questions)):
        if found:
            write_json(root / f"{kind}_{name}.json", {kind: found}, indent=None)


def _records(path: Path, key: str, problems: Problems) -> list[Any]:
    """The list in a file: either its whole content or the value of the top-level `key`."""
    try:
        content = open_json(path)
    except DataError as error:
        problems.add(str(error), "", "", "")
        return []
    if isinstance(content, list):
        records = content
    elif not isinstance(content, dict) or key not in content:
        found = listed(sorted(content)) if isinstance(content, dict) else shown(content)
        problems.add(path, "", key, f"top-level key is missing; the file holds {found}")
        return []
    else:
        records = content[key]
    if not isinstance(records, list):
        problems.add(path, "", key, f"must be a list, not {shown(records)}")
        return []
    if not records:
        problems.add(path, "", key, "is empty; a split needs at least one entry")
        return []
    return records
