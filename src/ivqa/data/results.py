"""Result files: those of the servers, and the logs of tools; `result_formats` lists the formats."""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from ivqa.data.formats import aokvqa, gqa
from ivqa.data.result_formats import Result, result_records
from ivqa.data.split import VQASplit
from ivqa.data.validation import DataError, Problems, shown
from ivqa.text.tokens import tokenise


def results_text(
    split: VQASplit, answers: Sequence[str] | None, chosen: Sequence[str] | None = None
) -> str:
    """Formats answers as the JSON text of a result file for the server of the data set.

    It has a record for each of the N questions of the split, with the published ids.

    Args:
        answers: The N answers in the order of the questions, or None.
        chosen: The N chosen candidates of multiple-choice questions, or None. The official list has
            them where there are no other answers; A-OKVQA's server reads both from one file.

    Raises:
        ValueError: The number of answers differs from the number of questions.
    """
    for given in (answers, chosen):
        if given is not None and len(given) != len(split):
            raise ValueError(f"{len(given)} answers for {len(split)} questions of '{split.name}'")
    write = split.server_results or _official
    return json.dumps(write(split, answers, chosen), ensure_ascii=False)


def _official(
    split: VQASplit, answers: Sequence[str] | None, chosen: Sequence[str] | None
) -> list[dict[str, object]]:
    given = answers if answers is not None else chosen
    return [
        {"question_id": question_id, "answer": answer}
        for question_id, answer in zip(split.question_ids.tolist(), given or (), strict=True)
    ]


def read_results(path: Path, split: VQASplit, *, noisy: bool = False) -> list[str | None]:
    """Reads a result file that must answer the N questions of a split.

    Args:
        noisy: Whether noise changed the words of the questions.

    Returns:
        The N answers in the order of the questions; None where the request failed, which does not
        count as a wrong answer.

    Raises:
        DataError: Question ids are missing, unknown or repeated, or belong to another question, a
            record is malformed, or all requests failed; the message lists all problems.
    """
    found = _matched(path, split, noisy)
    reasons = Counter(result.failure for result in found if result.failure is not None)
    if reasons.total() == len(split):
        raise DataError(
            f"{path}: all {len(split)} requests failed, most with {reasons.most_common(1)[0][0]}; "
            "repair the connection to the model and ask again"
        )
    return [None if result.failure is not None else result.answer for result in found]


def answers_any(path: Path, split: VQASplit) -> bool:
    """Whether a result file may answer a question of a split: unless all of its ids are others.

    Raises:
        DataError: The file cannot be read or has another format.
    """
    results = list(result_records(path, Problems()))
    if not results or any(one.question_id is None for one in results):
        return True
    return any(row is not None for row in _rows_by_id(results, split))


def read_choices(path: Path, split: VQASplit) -> list[str] | None:
    """Reads the chosen candidates of multiple-choice questions of A-OKVQA; see `read_results`.

    Returns the N choices, "" where the model chose none; None if the file has no choices.

    Raises:
        DataError: A question has none although others have; see also `read_results`.
    """
    found = _matched(path, split, noisy=True)
    choices = [one.choice for one in found if one.choice is not None]
    if len(choices) not in (0, len(found)):
        where = next(one.where for one in found if one.choice is None)
        raise DataError(f"{path}: {where} has no multiple_choice, and other questions have one")
    return choices or None


def _matched(path: Path, split: VQASplit, noisy: bool) -> list[Result]:
    """The N results of a file in the order of the questions."""
    problems = Problems()
    results = list(result_records(path, problems))
    named = [one for one in results if one.question_id or (one.image and not one.question)]
    if len(named) == len(results):
        rows = _rows_by_id(results, split)
    elif not named and all(one.question is None for one in results):
        if len(results) != len(split):
            fault = f"has {len(results)} lines for {len(split)} questions; write one for each"
            problems.add(path, "", "", fault)
        rows = list(range(min(len(results), len(split))))
    else:
        rows = _rows_by_question(results, split, path, problems)
    found: dict[int, Result] = {}
    for result, row in zip(results, rows, strict=False):
        name = result.question_id or result.question or result.image
        where = f"{result.where}, question {name}"
        field = "question_id" if result.question_id else "question"
        if row is None:
            problems.add(path, where, field, f"is not in split '{split.name}'")
        elif row in found:
            problems.add(path, where, field, "occurs twice")
        elif row >= 0:
            found[row] = result
            asked, own = result.question_id and result.question, split.questions[row]
            # A prompt may stand around the question.
            if asked and not noisy and Counter(tokenise(own)) - Counter(tokenise(asked)):
                fault = f"is {shown(asked)}, but question {name} of '{split.name}' is {shown(own)}"
                problems.add(path, where, "question", fault)
    for row, question_id in enumerate(split.question_ids.tolist()):
        if row not in found:
            problems.add(path, f"question {question_id}", "", f"of '{split.name}' has no answer")
    problems.raise_if_any()
    return [found[row] for row in range(len(split))]


def _rows_by_id(results: Sequence[Result], split: VQASplit) -> list[int | None]:
    """The question of each result by its id: derived, or as published by the data set."""
    known = {number: row for row, number in enumerate(split.question_ids.tolist())}
    best: list[int | None] = []
    hits = -1
    # The same text may be an id of VQA and, with a 1 in front, one of GQA. No file has all of its
    # ids known in both ways, so the way that knows most of them is the right one.
    for derive in _DERIVED:
        numbers = [derive(one.question_id or one.image or "") for one in results]
        rows = [None if number is None else known.get(number) for number in numbers]
        if (count := len(rows) - rows.count(None)) > hits:
            best, hits = rows, count
        if hits == len(rows):
            break
    return best


def _plain(text: str) -> int | None:
    # An exported table has a q before long ids, which a spreadsheet would round.
    found = re.fullmatch(r"q?(-?\d{1,19})", text, re.ASCII)
    return None if found is None else int(found[1])


def _of_gqa(text: str) -> int | None:
    return gqa.question_number(text) if re.fullmatch(r"\d{1,17}", text, re.ASCII) else None


def _of_file(text: str) -> int | None:
    """The number in the name of an image file: the id of VizWiz's question about it."""
    found = re.search(r"(\d{1,19})(\.\w+)?$", text, re.ASCII)
    return None if found is None else int(found[1])


_DERIVED: tuple[Callable[[str], int | None], ...] = (
    _plain,
    _of_gqa,
    aokvqa.question_number,
    _of_file,
)


def _rows_by_question(
    results: Sequence[Result], split: VQASplit, path: Path, problems: Problems
) -> list[int | None]:
    """The question of each result by its text, as POPE's files have it; -1 after a fault.

    Many questions of POPE have the same text. They are told apart by the image, or by the order, if
    all lines are in the order of the questions, and their images too.
    """
    images = split.image_ids.tolist()
    shown_images = [_of_file(one.image or "") for one in results]
    wanted = [tuple(tokenise(text)) for text in split.questions]
    given = [tuple(tokenise(one.question or "")) for one in results]
    others = set(images)
    in_order = all(
        number == image or number not in others
        for number, image in zip(shown_images, images, strict=False)
    )
    if given == wanted[: len(given)] and in_order:
        return list(range(len(given)))
    rows_of: dict[object, list[int]] = {}
    for row, (text, image) in enumerate(zip(wanted, images, strict=True)):
        rows_of.setdefault((text, None), []).append(row)
        rows_of.setdefault((text, image), []).append(row)
    rows: list[int | None] = []
    for text, number, one in zip(given, shown_images, results, strict=True):
        possible = rows_of.get((text, number), [])
        if len(possible) > 1:
            fault = (
                f"{shown(one.question)} is asked {len(possible)} times, and the lines are not in "
                f"the order of split '{split.name}'; add question_id to each line"
            )
            problems.add(path, one.where, "question", fault)
        rows.append(possible[0] if len(possible) == 1 else -1 if possible else None)
    return rows
