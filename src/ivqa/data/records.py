"""Reads the records of the VQA JSON files and checks them field by field."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ivqa.data.batches.batch import ANSWER_TYPES
from ivqa.data.json_files import open_json
from ivqa.data.validation import DataError, Problems, check_id, check_text, is_id, listed, shown
from ivqa.text.tokens import tokenise

Record = dict[str, Any]


def question_records(path: Path, problems: Problems) -> dict[int, Record]:
    """Reads a questions file.

    Args:
        path: The file.
        problems: Collects the faults.

    Returns:
        The records by question id, in the order of the file.
    """
    records = _by_question_id(path, "questions", problems)
    for question_id, record in records.items():
        where = f"question {question_id}"
        check_id(record, "image_id", path, where, problems)
        text = check_text(record, "question", path, where, problems)
        if text is not None and not tokenise(text):
            problems.add(path, where, "question", f"has no words: {shown(text)}")
        choices = record.get("multiple_choices")
        if choices is not None and not _is_texts(choices):
            problems.add(path, where, "multiple_choices", f"must be texts, not {shown(choices)}")
        if "kind" in record and not isinstance(record["kind"], str):
            problems.add(path, where, "kind", f"must be text, not {shown(record['kind'])}")
    return records


def annotation_records(path: Path, problems: Problems) -> dict[int, Record]:
    """Reads an annotations file.

    Args:
        path: The file.
        problems: Collects the faults.

    Returns:
        The records by question id, in the order of the file.
    """
    records = _by_question_id(path, "annotations", problems)
    for question_id, record in records.items():
        where = f"question {question_id}"
        answer_texts(record, path, where, problems)
        for field in ("multiple_choice_answer", "question_type", "answer_type"):
            if field in record and not isinstance(record[field], str):
                problems.add(path, where, field, f"must be text, not {shown(record[field])}")
        kind = record.get("answer_type")
        if isinstance(kind, str) and kind not in ANSWER_TYPES:
            fault = f"must be one of {', '.join(ANSWER_TYPES)}, not {kind!r}; or leave it out"
            problems.add(path, where, "answer_type", fault)
    return records


def answer_texts(record: Record, path: Path, where: str, problems: Problems) -> list[str] | None:
    """Reads the answers of a record: a list of {"answer": text, ...}.

    Args:
        record: The record.
        path: Its file, for the messages.
        where: Names the record by its id, for the messages.
        problems: Collects the faults.

    Returns:
        The answers as written, one at least, or None after a fault.
    """
    answers = record.get("answers")
    if not isinstance(answers, list):
        fault = f"must be a list, not {shown(answers)}" if "answers" in record else "is missing"
        problems.add(path, where, "answers", fault)
        return None
    if not answers:
        problems.add(
            path, where, "answers", "has no answers; remove the question or add one at least"
        )
        return None
    texts = []
    for position, answer in enumerate(answers):
        value = answer.get("answer") if isinstance(answer, dict) else answer
        if isinstance(answer, dict) and type(value) is str:
            texts.append(value)
        else:
            field = f"answers[{position}].answer"
            problems.add(path, where, field, f"must be text, not {shown(value)}")
    return texts if len(texts) == len(answers) else None


def check_join(
    questions: Mapping[int, Record],
    annotations: Mapping[int, Record],
    questions_path: Path,
    annotations_path: Path,
    problems: Problems,
) -> None:
    """Reports questions without annotation, annotations without question, and differing image ids.

    Args:
        questions: Records of the questions by question id.
        annotations: Records of the annotations by question id.
        questions_path: File of the questions, for the messages.
        annotations_path: File of the annotations, for the messages.
        problems: Collects the faults.
    """
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
    """Reads a captions file in COCO format.

    Args:
        path: The file.
        problems: Collects the faults.

    Returns:
        The captions of every image by image id.
    """
    captions: dict[int, list[str]] = {}
    for position, record in enumerate(_records(path, "annotations", problems)):
        if not isinstance(record, dict):
            problems.add(path, f"entry {position}", "", f"must be an object, not {shown(record)}")
            continue
        where = f"caption {record.get('id', position)}"
        image_id = check_id(record, "image_id", path, where, problems)
        text = check_text(record, "caption", path, where, problems)
        if image_id is not None and text is not None:
            captions.setdefault(image_id, []).append(text)
    return captions


def read_layouts(path: Path, problems: Problems) -> dict[int, list[str]]:
    """Reads a file of expert layouts.

    Args:
        path: The file.
        problems: Collects the faults.

    Returns:
        The layouts, lists of module names in reverse Polish order, by question id.
    """
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
        elif not _is_texts(tokens) or not tokens:
            problems.add(path, f"question {key}", "", f"must be module names, not {shown(tokens)}")
        else:
            layouts[int(key)] = tokens
    return layouts


def _by_question_id(path: Path, key: str, problems: Problems) -> dict[int, Record]:
    found: dict[int, Record] = {}
    for position, record in enumerate(_records(path, key, problems)):
        where = f"entry {position}"
        if not isinstance(record, dict):
            problems.add(path, where, "", f"must be an object, not {shown(record)}")
            continue
        question_id = check_id(record, "question_id", path, where, problems)
        if question_id is None:
            continue
        if question_id in found:
            problems.add(path, f"question {question_id}", "question_id", "occurs more than once")
            continue
        found[question_id] = record
    return found


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


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
