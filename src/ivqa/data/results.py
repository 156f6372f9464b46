"""Result files: the official format [{"question_id", "answer"}, ...], and the logs of tools.

`result_formats` lists the formats of the tools.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ivqa.data.result_formats import result_records
from ivqa.data.validation import Problems, check_id, check_text
from ivqa.data.vqa_json import VQASplit


def results_text(split: VQASplit, answers: Sequence[str]) -> str:
    """Formats answers as the JSON text of a result file.

    Args:
        split: The split of N questions.
        answers: The N answers in the order of the questions.

    Returns:
        A list of one record for each question.

    Raises:
        ValueError: The number of answers differs from the number of questions.
    """
    if len(answers) != len(split):
        raise ValueError(f"{len(answers)} answers for {len(split)} questions of '{split.name}'")
    records = [
        {"question_id": question_id, "answer": answer}
        for question_id, answer in zip(split.question_ids.tolist(), answers, strict=True)
    ]
    return json.dumps(records, ensure_ascii=False)


def read_results(path: Path, split: VQASplit) -> list[str]:
    """Reads a result file.

    Args:
        path: The file, in a format of `result_formats`.
        split: The split of N questions that the file must answer.

    Returns:
        The N answers in the order of the questions.

    Raises:
        DataError: Question ids are missing, unknown or repeated, or a record is malformed; the
            message lists all problems.
    """
    problems = Problems()
    found: dict[int, str] = {}
    known = set(split.question_ids.tolist())
    for where, record in result_records(path, problems):
        _read(record, where, path, split.name, known, found, problems)
    for question_id in split.question_ids.tolist():
        if question_id not in found:
            problems.add(path, f"question {question_id}", "", f"of '{split.name}' has no answer")
    problems.raise_if_any()
    return [found[question_id] for question_id in split.question_ids.tolist()]


def _read(
    record: Any,
    place: str,
    path: Path,
    split: str,
    known: set[int],
    found: dict[int, str],
    problems: Problems,
) -> None:
    if not isinstance(record, dict):
        problems.add(path, place, "", "must be an object")
        return
    question_id = check_id(record, "question_id", path, place, problems)
    if question_id is None:
        return
    where = f"{place}, question {question_id}"
    answer = check_text(record, "answer", path, where, problems)
    if question_id in found:
        problems.add(path, where, "question_id", "occurs twice")
    elif question_id not in known:
        problems.add(path, where, "question_id", f"is not in split '{split}'")
    elif answer is not None:
        found[question_id] = answer
