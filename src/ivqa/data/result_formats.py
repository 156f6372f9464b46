"""The formats of result files: those of the servers, and what lmms-eval and VLMEvalKit log.

| file | format |
|---|---|
| .json, .json.gz, .zip | a list of {"question_id", "answer"} (VQA, OK-VQA), {"questionId",
          "prediction"} (GQA), {"image", "answer"} (VizWiz), {"question_index", "answer"} (CLEVR),
          or of VLMEvalKit's rows; an object {ID: {"direct_answer", "multiple_choice"}} (A-OKVQA) |
| .jsonl | lmms-eval's --log_samples, or a record of such a list in each line; for POPE also
          {"question", "answer"} |
| .tsv, .csv, .xlsx | VLMEvalKit's table, or the columns of such a list |
| .txt | an answer in each line, in the order of the questions (CLEVR) |
"""

import csv
import io
import math
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from ivqa.data.json_files import open_json
from ivqa.data.validation import DataError, Problems, is_id, shown
from ivqa.store.files import FileError, check_regular, parse_json, read_text
from ivqa.text.failed_answers import failure

_IDS = ("question_id", "questionId", "question_index", "index")
_EXACT = 10**15  # Excel keeps 15 digits of a number


class Result(NamedTuple):
    """One answer of a result file.

    Args:
        where: Its place in the file, such as "line 3".
        question_id: Its id as written; None in a record that names its question by the text.
        question: The text of the question, or None.
        image: Name of the image file, or None.
        answer: The answer; "" where the request failed.
        failure: Why there is no answer, or None.
        choice: The chosen one of multiple choices, "" for none of them; None without such a field.
    """

    where: str
    question_id: str | None
    question: str | None
    image: str | None
    answer: str
    failure: str | None
    choice: str | None = None


def result_records(path: Path, problems: Problems) -> Iterator[Result]:
    """Reads the answers in a result file in any of the formats of this module.

    Raises:
        DataError: The file cannot be read or has another format.
    """
    readers = {
        ".jsonl": _lines, ".tsv": _table, ".csv": _table, ".xlsx": _workbook, ".txt": _texts,
    }  # fmt: skip
    for where, record in readers.get(path.suffix.lower(), _json)(path):
        if not isinstance(record, dict):
            problems.add(path, where, "", "must be an object")
            continue
        result = _result(record, where, path, problems)
        if result is not None:
            yield result


def _json(path: Path) -> Iterator[tuple[str, Any]]:
    content = open_json(path)
    if isinstance(content, dict) and all(isinstance(one, dict | str) for one in content.values()):
        for name, value in content.items():
            answers = value if isinstance(value, dict) else {"direct_answer": value}
            yield f"question {name}", {"question_id": name, **answers}
    elif isinstance(content, list):
        for number, record in enumerate(content):
            yield f"record {number}", record
    else:
        raise DataError(f'{path}: must hold a list of {{"question_id", "answer"}}')


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    # splitlines() would also split at characters such as U+2028, which answers may contain.
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"line {number}", parse_json(line.encode(), f"{path}, line {number}")


def _texts(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), start=1):
        yield f"line {number}", {"answer": line}


def _table(path: Path) -> Iterator[tuple[str, Any]]:
    csv.field_size_limit(1 << 30)  # the column of images in base64 is long
    delimiter = "," if path.suffix.lower() == ".csv" else "\t"
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""), delimiter=delimiter)
    _check_columns(path, reader.fieldnames or [])
    for row in reader:
        yield f"line {reader.line_num}", row


def _workbook(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        import openpyxl

        with closing(openpyxl.load_workbook(check_regular(path), read_only=True)) as book:
            book.worksheets[0].reset_dimensions()  # some writers store wrong ones
            rows = list(book.worksheets[0].iter_rows())
    except ImportError:
        raise DataError(
            f"{path}: reading .xlsx files needs openpyxl; pip install 'ivqa[excel]', or save "
            "the table as .tsv"
        ) from None
    except FileError:
        raise
    except Exception as error:  # readers of damaged archives raise many types
        raise DataError(f"{path} is not a readable .xlsx file ({error}); write it again") from None
    names = [str(cell.value) for cell in rows[0]] if rows else []
    _check_columns(path, names)
    key = next(key for key in _IDS if key in names)
    for number, cells in enumerate(rows[1:], start=2):
        read = {name: _cell(cell, name) for name, cell in zip(names, cells, strict=False)}
        row = dict.fromkeys(names) | read  # empty cells at the end of a row are not stored
        given_id = row[key]
        if isinstance(given_id, float) and abs(given_id) >= _EXACT:
            raise DataError(
                f"{path}, row {number}: {key} has more than 15 digits, and Excel has rounded it; "
                "write the table as .tsv, or export the questions again: long ids are now text"
            )
        if any(value is not None for value in row.values()):
            yield f"row {number}", row


def _cell(cell: Any, name: str) -> Any:
    """The value of a cell; answers such as 2 become texts again."""
    # A formula, its error or a date is not what the model wrote: "=5" and "5/1" become them.
    value = math.nan if cell.data_type in ("f", "e", "d") else cell.value
    return value if value is None or name in _IDS or _is_nan(value) else str(value)


def _check_columns(path: Path, names: Collection[str]) -> None:
    if not set(_IDS) & set(names) or _answer_key(names) not in names:
        raise DataError(
            f"{path}: must have the columns question_id (or index) and prediction, as VLMEvalKit "
            f"writes them; it has {', '.join(map(str, names)) or 'none'}"
        )


def _answer_key(names: Collection[str]) -> str:
    """The key of the model's answer; `answer` of VLMEvalKit's rows is the right one."""
    if "direct_answer" in names or "multiple_choice" in names:
        return "direct_answer"
    return "prediction" if "prediction" in names or "index" in names else "answer"


def _result(record: dict[str, Any], where: str, path: Path, problems: Problems) -> Result | None:
    """The answer in a record; None after a fault that is reported."""
    key = _answer_key(record)
    answer, holders = record.get(key), [record]
    if logged := "filtered_resps" in record or "resps" in record:
        # lmms-eval: `resps` is absent where it is the same. The question is in `doc` (versions
        # before 0.7) or in the value of a metric, such as `submission` or `pope_accuracy`.
        key, answer = "filtered_resps", record.get("filtered_resps", record.get("resps"))
        while isinstance(answer, list) and len(answer) == 1:
            answer = answer[0]
        holders += [one for one in record.values() if isinstance(one, dict)]
    number = next((one[name] for one in holders for name in _IDS if name in one), None)
    image = next((one["image"] for one in holders if isinstance(one.get("image"), str)), None)
    questions = (one.get("question") for one in holders)
    question = next((one for one in questions if isinstance(one, str)), None)
    choice = record.get("multiple_choice")
    fault, field = None, "question_id"
    if logged and isinstance(answer, list) and answer:
        fault, field = f"has {len(answer)} answers; run lmms-eval with --repeats 1", ""
    elif logged and number is None and image is None:
        fault = "is missing; run a task that task=export wrote, which logs it"
    elif number is None and image is None and question is None and path.suffix != ".txt":
        fault = "is missing"
    elif number is not None and _id_text(number) is None:
        fault = f"must be an integer of 64 bits or text, not {shown(number)}"
    elif key not in record and not logged:
        fault, field = "is missing", key
    elif not (answer in (None, []) or isinstance(answer, str) or _is_nan(answer)):
        fault, field = f"must be text, not {shown(answer)}", key
    elif not (choice in (None, "") or (isinstance(choice, str) and failure(choice) is None)):
        fault, field = f"must be one of the choices, not {shown(choice)}", "multiple_choice"
    if fault is not None:
        problems.add(path, where, field, fault)
        return None
    said = answer if isinstance(answer, str) else ""
    reason = failure(said) if isinstance(answer, str) else shown(answer)
    text = None if number is None else _id_text(number)
    return Result(where, text, question, image, said, reason, choice)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _id_text(value: object) -> str | None:
    """An id as text, whatever type a tool gives it; None where it is no id."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)  # pandas makes a column of integers with a gap one of floats
    if isinstance(value, str):
        return value.strip() or None
    return str(value) if is_id(value) else None
